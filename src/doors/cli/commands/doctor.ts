import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { counted } from '../../../base/counted.js'
import { SpooldError } from '../../../base/errors.js'
import { PACKAGE_ROOT } from '../../../base/package-root.js'
import { codeOf } from '../../../formats/config/check-syntax.js'
import { importLanguage } from '../../../formats/config/handlers.js'
import type { ResolvedOptions } from '../../../formats/config/options.js'
import { addressOf, handlingSpools, type SpoolConfig } from '../../../formats/config/spools.js'
import { formatProblem } from '../../../formats/ini/setting.js'
import { isRedisAddress } from '../../../formats/protocol/redis-address.js'
import { become, identityOf } from '../../../system/privileges.js'
import { type CheckedConfig, checkConfig } from '../../check/check.js'
import { writtenBy } from '../../check/written.js'
import { checkLiveUwsgi } from '../../daemon/live-uwsgi.js'
import { type Diagnosis, diagnosisOf, type Level } from '../../doctor/diagnosis.js'
import { checkReadable, checkTokens, checkWritable } from '../../doctor/files.js'
import { checkLimits, checkNode, inotifyUse, type Needs } from '../../doctor/machine.js'
import { examineRedis } from '../../doctor/redis.js'
import { checkNeighbours, examineSpool } from '../../doctor/spools.js'
import { type Looker, lookerOf } from '../acting-owner.js'
import { type CommandContext, sourcesOf } from '../context.js'
import { localOf } from '../destination.js'
import type { Output } from '../output.js'
import { readSources } from '../places.js'
import { rehearseHandlers } from '../rehearse-handlers.js'

interface DoctorOptions {
  readonly json?: boolean
}

/** `spoold doctor app.ini`: examines the whole installation and changes nothing. @returns 1 if there is an error */
export async function doctor(
  files: readonly string[],
  { json }: DoctorOptions,
  context: CommandContext,
): Promise<number> {
  const { output } = context
  output.purpose = 'judge'
  if (files.some(isRedisAddress))
    throw new SpooldError(
      'NOT_ON_REDIS',
      'spoold doctor takes ini files, and examines each Redis that they name: spoold doctor app.ini',
    )
  const tally: Record<Level, number> = { ok: 0, note: 0, warning: 0, error: 0 }
  const say = (line: string) => output.complain(`a handler prints: ${line}`)
  const sources = sourcesOf(files, context)
  const config = checkConfig(sources, await readSources(sources, output))
  for await (const diagnosis of examine(config, say)) {
    tally[diagnosis.level]++
    if (json) output.json(diagnosis)
    else print(diagnosis, output)
  }
  const { error, warning, note } = tally
  if (!json)
    output.line(
      `${files.join(', ')}: ${[counted(error, 'error'), counted(warning, 'warning'), counted(note, 'note')].join(', ')}`,
    )
  return error === 0 ? 0 : 1
}

/** Runs the checks that need the caller's rights first, the rest with the rights of the daemon's user. */
async function* examine(config: CheckedConfig, say: (line: string) => void): AsyncGenerator<Diagnosis> {
  const { options, problems } = config
  checkLiveUwsgi(config, problems)
  for (const problem of problems.list)
    yield {
      level: problem.severity,
      topic: 'configuration',
      about: problem.where.file,
      text: formatProblem(problem),
    }
  yield checkNode(enginesOf())
  const home = resolve(options.chdir ?? '.')
  const spools = distinct(config.spools)
  for (const [path, { options }] of spools) yield* checkNeighbours(path, options.spoolerLock === 'lockfile')
  const isRoot = process.geteuid?.() === 0
  const identity = yield* takeIdentity(config, isRoot)
  const owner = { uid: process.geteuid?.() ?? 0, gid: process.getegid?.() ?? 0 }
  let isReadable = true
  for (const diagnosis of checkReadable(importedFiles(config, home), [
    ...(options.chdir === null ? [] : [home]),
    ...new Set(
      config.spools.flatMap(({ options: { spoolerChdir } }) =>
        spoolerChdir === null ? [] : [resolve(home, spoolerChdir)],
      ),
    ),
  ])) {
    isReadable &&= diagnosis.level !== 'error'
    yield diagnosis
  }
  for (const [path, { isExternal, options, directory }] of spools)
    yield* examineSpool({
      path,
      isExternal,
      isOrdered: options.spoolerOrdered !== false || isRedisAddress(directory), // forwarded from all priorities
      locks: options.spoolerLock,
      watch: options.spoolerWatch,
      maker: { isRoot, owner },
    })
  for (const address of new Set(config.spools.map(spool => addressOf(spool)).filter(isRedisAddress)))
    yield* examineRedis(address)
  yield* checkWritable(writtenBy(options, home), isRoot && process.geteuid?.() !== 0)
  if (options.spoolerDashboardTokens !== null)
    yield await checkTokens(resolve(options.spoolerDashboardTokens))
  if (problems.errors.length === 0 && isReadable && identity.isTaken)
    yield* rehearseHandlers(config, home, say)
  yield* checkLimits(needsOf(config), identity.inotify)
}

/** Returns the files of spooler-import, except modules that an interpreter finds. */
function importedFiles(config: ResolvedOptions, home: string): string[] {
  const named = handlingSpools(config).flatMap(({ options }) => options.spoolerImport)
  return [...new Set(named)]
    .filter(file => importLanguage(file, home) === 'javascript' || existsSync(resolve(home, file)))
    .map(file => resolve(home, file))
}

/** Becomes the user for whom root looks, for good: rights may depend on more than file modes. */
function* takeIdentity(
  config: ResolvedOptions,
  isRoot: boolean,
): Generator<Diagnosis, { readonly inotify: ReturnType<typeof inotifyUse>; readonly isTaken: boolean }> {
  const { looker, isClear } = yield* lookerFor(config, isRoot)
  const { identity = null, danger } = looker ?? {}
  const uid = identity?.uid ?? process.geteuid?.() ?? 0
  const inotify = inotifyUse(uid)
  let isTaken = isClear
  try {
    if (identity !== null && isRoot) become(identity)
  } catch (error) {
    isTaken = false
    yield diagnosisOf('user', String(uid), error)
  }
  const because = looker?.because === undefined ? '' : `, ${looker.because}`
  const text = `examined as uid ${process.geteuid?.()}, gid ${process.getegid?.()}${because}`
  const found = { topic: 'user', about: String(uid), text } as const
  if (uid === process.geteuid?.() && uid !== 0) yield { ...found, level: 'ok' }
  else yield { ...found, ...(uid === 0 ? AS_ROOT : AS_OTHER) }
  if (danger !== undefined)
    yield { ...found, ...DANGERS[danger], fix: `set uid = ${uid} in the configuration` }
  return { inotify, isTaken }
}

const AS_ROOT = {
  level: 'note',
  fix: 'set uid and gid, or User= in the systemd unit: handlers need not be root',
} as const
const DANGERS = {
  refuses: { level: 'error', text: 'the daemon would be root, and root works only in what is root’s' },
  'runs it': { level: 'warning', text: 'the daemon would be root, and run what that user writes there' },
} as const
const AS_OTHER = { level: 'note', fix: 'run doctor as root, or as that user' } as const

/** Finds the user for whom root looks. @returns in `isClear`, whether it is clear as whom handlers may be run */
function* lookerFor(
  config: ResolvedOptions,
  isRoot: boolean,
): Generator<Diagnosis, { readonly looker: Partial<Looker> | null; readonly isClear: boolean }> {
  try {
    const looker = isRoot ? lookerOf(config, codeOf(config)) : null
    const identity = looker === null ? identityOf(config.options) : null
    return { looker: identity === null ? looker : { identity }, isClear: true }
  } catch (error) {
    yield diagnosisOf('user', config.options.uid ?? config.options.gid ?? '', error)
    return { looker: null, isClear: false }
  }
}

/** Estimated descriptors of one process: libraries, log, pidfiles, and some for the handlers. */
const FILES_OF_A_PROCESS = 64
/** An upper bound of the master's descriptors per worker. A running worker has one socket there. */
const FILES_PER_WORKER = 4

/**
 * Returns spools by the path of their directory, which may be the one for when Redis is away. If a directory is named twice, the
 * entry that this configuration runs wins.
 */
function distinct(spools: readonly SpoolConfig[]): Map<string, SpoolConfig> {
  const own = spools.filter(({ isExternal }) => !isExternal)
  return new Map(
    [...spools, ...own].flatMap(spool => {
      const directory = localOf(addressOf(spool))
      return directory === undefined ? [] : [[resolve(directory), spool] as const]
    }),
  )
}

function needsOf({ options, spools }: ResolvedOptions): Needs {
  const touched = options.touchReload.length + options.touchSpoolersReload.length
  const own = spools.filter(({ isExternal }) => !isExternal).map(spool => spool.options)
  const workers = own.reduce((sum, { spoolerProcesses }) => sum + Math.max(1, spoolerProcesses), 0)
  const concurrency = Math.max(0, ...own.map(({ spoolerConcurrency }) => spoolerConcurrency))
  return {
    watches: own.length + touched,
    files: FILES_OF_A_PROCESS + Math.max(workers * FILES_PER_WORKER, 2 * concurrency),
    connections: options.socket.length === 0 ? 0 : options.socketMaxConnections,
    backlog: options.socket.length === 0 ? null : options.listen,
  }
}

function enginesOf(): string {
  const manifest: { engines: { node: string } } = JSON.parse(
    readFileSync(join(PACKAGE_ROOT, 'package.json'), 'utf8'),
  )
  return manifest.engines.node
}

function print({ level, topic, about, text, fix }: Diagnosis, output: Output): void {
  output.paragraph(`${level.padEnd(8)}${topic}: ${topic === 'configuration' ? '' : `${about}: `}${text}`)
  if (fix !== undefined) output.line(`        to fix it: ${fix}`)
}
