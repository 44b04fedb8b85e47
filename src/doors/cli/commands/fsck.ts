import { closeSync } from 'node:fs'
import { doEach } from '../../../base/each.js'
import { messageOf, SpooldError } from '../../../base/errors.js'
import { type ResolvedOptions, resolveOptions } from '../../../formats/config/options.js'
import { retryPolicyOf } from '../../../formats/config/retry-policy.js'
import { readConfig } from '../../../formats/ini/read-config.js'
import { isRedisAddress } from '../../../formats/protocol/redis-address.js'
import { systemError } from '../../../system/calls.js'
import { descriptorPath } from '../../../system/descriptor-path.js'
import { realPathOf } from '../../../system/file-stats.js'
import { identityOf } from '../../../system/privileges.js'
import { examineRights, examineSpool } from '../../fsck/examine.js'
import { countLooks, openExaminedSpool } from '../../fsck/examined-spool.js'
import { type Finding, OVER, type Repair } from '../../fsck/finding.js'
import { holdForRoot } from '../acting-owner.js'
import type { CommandContext } from '../context.js'
import { inTurn } from '../in-each-spool.js'
import type { OwnProcess } from '../own-process.js'
import { type IniOptions, type Place, readIni, spoolsOf, unlisted } from '../places.js'
import { Progress } from '../progress.js'
import { countText, jsonBytes, terminalName } from '../render.js'
import { readVersion } from '../version.js'

interface FsckOptions extends IniOptions {
  readonly repair?: boolean
  readonly json?: boolean
}

type State = 'found' | 'note' | 'repaired' | 'left'
type RepairResult = { readonly state: State; readonly detail?: string }

/** `spoold fsck DIR…`: finds faults in spools, and repairs them on request. @returns 1 if a fault is left */
export async function fsck(
  named: readonly string[],
  { repair = false, json = false, ini }: FsckOptions,
  context: CommandContext,
): Promise<number> {
  const { output, ownProcess, interruption } = context
  const { part, runParts } = ownProcess
  const { signal } = interruption
  output.purpose = repair ? 'change' : 'judge'
  const config = ini === undefined ? unconfigured() : await readIni(ini, context)
  const own = config.spools.filter(({ isExternal }) => !isExternal).map(({ directory }) => directory)
  const places = await spoolsOf(named.length > 0 ? named : own, {}, context)
  const all = places.filter(({ spool }) => !isRedisAddress(spool))
  if (all.length === 0 || named.some(isRedisAddress))
    throw new SpooldError(
      'NOT_ON_REDIS',
      'spoold fsck repairs the files of a directory, and there are none of a spool on Redis (spoold doctor app.ini examines that): name spools in directories',
    )
  // each spool needs root first, for owners and modes, and then a process that becomes its user for good
  if (process.geteuid?.() === 0 && all.length > 1 && part === undefined) return runParts(all.keys())

  let repaired = 0
  const examineOne = async (place: Place) => {
    const tally = { found: 0, note: 0, repaired: 0, left: 0 }
    const progress = new Progress(output, 'check')
    const settle = async (finding: Finding) => {
      const result = repair ? await repairOne(finding) : asFound(finding)
      if (result === undefined) return
      tally[result.state]++
      if (result.state === 'repaired') repaired++
      if (json) output.json(asJson(place.shown, finding, result))
      else output.line(asText(finding, result))
      await output.room()
    }
    const findings = examine(place.spool, config, ini !== undefined, ownProcess, progress)
    await doEach(findings, settle, { signal })
    if (!json && !signal.aborted) output.line(`${place.shown}: ${verdict(tally)}`)
    return tally.found + tally.left > 0 ? 1 : 0
  }
  const mine = part === undefined ? all : all.slice(Number(part), Number(part) + 1)
  return inTurn(mine, context, examineOne, repair ? () => `${countText(repaired)} repaired` : undefined)
}

/** Returns the defaults of the option table. */
function unconfigured(): ResolvedOptions {
  return resolveOptions(readConfig({ environment: {}, commandLine: [], files: [], version: readVersion() }))
}

/** Yields the findings in a spool. Uses the caller's rights only for the checks that need them. */
async function* examine(
  spool: string,
  { options, spools, anySpool }: ResolvedOptions,
  isConfigured: boolean,
  ownProcess: OwnProcess,
  progress: Progress,
): AsyncGenerator<Finding> {
  const held = process.geteuid?.() === 0 ? holdForRoot(spool) : undefined
  if (held?.missing !== undefined) throw unlisted(spool, systemError(held.missing, 'open', spool))
  const identity = identityOf(options) ?? held?.owner ?? null
  const own = spools.find(each => realPathOf(each.directory) === spool)?.options ?? anySpool.options
  const { examined, user, inUse } = openExaminedSpool(spool, {
    user: identity,
    rules: isConfigured
      ? { ordered: own.spoolerOrdered !== false, strictNames: own.spoolerStrictNames }
      : undefined,
    graceMs: own.spoolerSweepMs,
    idTtlMs: own.spoolerIdTtlMs,
    frequencyMs: own.spoolerFrequencyMs,
    policy: retryPolicyOf(own),
    passed: () => progress.step(),
    handlers: own.spoolerImport,
  })
  const now = held === undefined ? examined : { ...examined, spool: descriptorPath(held.fd) }
  if (progress.isShown) progress.expect(await countLooks(now))
  yield* inUse
  yield* examineRights(now)
  if (held !== undefined) closeSync(held.fd)
  if (process.geteuid?.() === 0 && identity !== null && user.uid !== 0) await ownProcess.become(identity)
  yield* examineSpool(examined)
}

function asFound({ isNote }: Finding): RepairResult {
  return { state: isNote ? 'note' : 'found' }
}

/** Repairs what can be repaired. @returns undefined if the finding no longer exists */
async function repairOne(finding: Finding): Promise<RepairResult | undefined> {
  if (finding.repair === undefined) return finding.isNote ? { state: 'note' } : { state: 'left' }
  const repair = await tried(finding)
  if (repair.kind === 'over') return undefined
  return { state: repair.kind, ...(repair.detail === undefined ? {} : { detail: repair.detail }) }
}

async function tried({ isStill, repair }: Finding): Promise<Repair> {
  try {
    return repair === undefined || isStill?.() === false ? OVER : await repair()
  } catch (error) {
    return { kind: 'left', detail: messageOf(error) }
  }
}

function asText({ kind, path, meaning, fix, repair }: Finding, { state, detail }: RepairResult): string {
  const at = path === '' ? '' : ` ${terminalName(Buffer.from(path, 'latin1'))}`
  const hasFailed = state === 'left' && repair !== undefined
  const ways = fix === '' || hasFailed ? [] : [`to fix it: ${fix}`]
  const end = (state === 'repaired' ? [detail ?? ''] : [detail ?? '', ...ways])
    .filter(part => part !== '')
    .join('; ')
  return `${state} ${kind}${at}: ${meaning}${end === '' ? '' : `; ${end}`}`
}

function asJson(spooler: string, { kind, path, meaning, fix }: Finding, result: RepairResult): object {
  return {
    spooler,
    ...result,
    kind,
    path: jsonBytes(Buffer.from(path, 'latin1')),
    meaning,
    fix,
  }
}

function verdict({ found, note, repaired, left }: Record<State, number>): string {
  const parts = [`${found} found`, `${repaired} repaired`, `${left} left`, `${note} noted`]
  const counts = parts.filter(part => !part.startsWith('0 '))
  return found + left > 0 || repaired > 0 ? counts.join(', ') : ['clean', ...counts].join(', ')
}
