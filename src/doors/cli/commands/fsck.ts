import { realpathSync, statSync } from 'node:fs'
import { messageOf, SpooldError } from '../../../base/errors.js'
import { type ResolvedOptions, resolveOptions } from '../../../formats/config/options.js'
import { retryPolicyOf } from '../../../formats/config/retry-policy.js'
import { readConfig } from '../../../formats/ini/read-config.js'
import { realPathOf } from '../../../system/file-stats.js'
import { identityOf } from '../../../system/privileges.js'
import { examineRights, examineSpool } from '../../fsck/examine.js'
import { openExaminedSpool } from '../../fsck/examined-spool.js'
import type { Finding, Repair } from '../../fsck/finding.js'
import { countLooks } from '../../fsck/looks.js'
import { ownerOf } from '../acting-owner.js'
import type { CommandContext } from '../context.js'
import { isOnRedis, notOnRedis } from '../not-on-redis.js'
import type { OwnProcess } from '../own-process.js'
import { Progress } from '../progress.js'
import { jsonBytes, terminalName } from '../render.js'
import { readVersion } from '../version.js'

interface FsckOptions {
  readonly repair?: boolean
  readonly json?: boolean
  readonly ini?: string
}

type State = 'found' | 'note' | 'repaired' | 'left'
type RepairResult = { readonly state: State; readonly detail?: string }

/** `spoold fsck DIR…`: finds faults in spools, and repairs them on request. @returns 1 if a fault is left */
export async function fsck(
  directories: readonly string[],
  { repair, json, ini }: FsckOptions,
  { output, ownProcess }: CommandContext,
): Promise<number> {
  const { part, runPart } = ownProcess
  output.purpose = repair ? 'change' : 'judge'
  const config = readOptions(ini)
  const own = config.spools.filter(({ isExternal }) => !isExternal).map(({ directory }) => directory)
  const spools = directories.length > 0 ? directories : own
  if (spools.length === 0) throw new SpooldError('USAGE', 'name a spool directory, or --ini FILE')
  const all = [...new Set(spools)].filter(spool => !isOnRedis(spool))
  if (all.length === 0) throw notOnRedis('fsck')
  // each spool needs root first, for owners and modes, and then a process that becomes its user for good
  if (process.geteuid?.() === 0 && all.length > 1 && part === undefined) {
    let exitCode = 0
    for (const i of all.keys()) exitCode = Math.max(exitCode, await runPart(String(i)))
    return exitCode
  }
  let exitCode = 0
  for (const directory of part === undefined ? all : [all[Number(part)] ?? '']) {
    const tally = { found: 0, note: 0, repaired: 0, left: 0 }
    const progress = new Progress(output, 'checks')
    for await (const finding of examine(directory, config, ini !== undefined, ownProcess, progress)) {
      const result = repair ? await repairOne(finding) : asFound(finding)
      if (result === undefined) continue
      tally[result.state]++
      output.line(json ? asJson(directory, finding, result) : asText(finding, result))
    }
    if (!json) output.line(`${directory}: ${verdict(tally)}`)
    if (tally.found + tally.left > 0) exitCode = 1
  }
  return exitCode
}

/** Without a configuration, the defaults of the option table. */
function readOptions(ini: string | undefined): ResolvedOptions {
  const files = ini === undefined ? [] : [ini]
  const config = readConfig({ environment: {}, commandLine: [], files, version: readVersion() })
  const resolved = resolveOptions(config)
  const [problem] = config.problems.errors
  if (problem !== undefined) throw new SpooldError('CONFIG_INVALID', `${ini}: ${problem.message}`)
  return resolved
}

/** Uses the caller's rights only for the checks that need them. */
async function* examine(
  directory: string,
  { options, spools, anySpool }: ResolvedOptions,
  isConfigured: boolean,
  ownProcess: OwnProcess,
  progress: Progress,
): AsyncGenerator<Finding> {
  const spool = realPath(directory)
  const configured = identityOf(options)
  const identity = configured ?? ownerOf(spool)
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
  if (progress.isShown) progress.expect(await countLooks(examined))
  yield* inUse
  yield* examineRights(examined)
  if (process.geteuid?.() === 0 && identity !== null && user.uid !== 0) await ownProcess.become(identity)
  yield* examineSpool(examined)
}

function realPath(directory: string): string {
  try {
    const path = realpathSync(directory)
    if (statSync(path).isDirectory()) return path
  } catch (error) {
    throw new SpooldError('SPOOL_UNUSABLE', `${directory} is not a spool directory: ${messageOf(error)}`, {
      cause: error,
    })
  }
  throw new SpooldError('SPOOL_UNUSABLE', `${directory} is not a directory; an ini file goes with --ini`)
}

function asFound({ isNote }: Finding): RepairResult {
  return { state: isNote ? 'note' : 'found' }
}

/** undefined: the finding no longer exists. */
async function repairOne(finding: Finding): Promise<RepairResult | undefined> {
  if (finding.repair === undefined) return finding.isNote ? { state: 'note' } : { state: 'left' }
  const repair = await tried(finding.repair)
  if (repair.kind === 'over') return undefined
  return { state: repair.kind, ...(repair.detail === undefined ? {} : { detail: repair.detail }) }
}

async function tried(repair: NonNullable<Finding['repair']>): Promise<Repair> {
  try {
    return await repair()
  } catch (error) {
    return { kind: 'left', detail: messageOf(error) }
  }
}

function asText({ kind, path, meaning, fix }: Finding, { state, detail }: RepairResult): string {
  const at = path === '' ? '' : ` ${terminalName(Buffer.from(path, 'latin1'))}`
  const ways = fix === '' ? [] : [`to fix it: ${fix}`]
  const end = (state === 'repaired' ? [detail ?? ''] : [detail ?? '', ...ways])
    .filter(part => part !== '')
    .join('; ')
  return `${state} ${kind}${at}: ${meaning}${end === '' ? '' : `; ${end}`}`
}

function asJson(spooler: string, { kind, path, meaning, fix }: Finding, result: RepairResult): string {
  return JSON.stringify({
    spooler,
    ...result,
    kind,
    path: jsonBytes(Buffer.from(path, 'latin1')),
    meaning,
    fix,
  })
}

function verdict({ found, note, repaired, left }: Record<State, number>): string {
  const parts = [`${found} found`, `${repaired} repaired`, `${left} left`, `${note} noted`]
  const counts = parts.filter(part => !part.startsWith('0 '))
  return found + left > 0 || repaired > 0 ? counts.join(', ') : ['clean', ...counts].join(', ')
}
