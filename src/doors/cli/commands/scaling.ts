import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { wrongArg } from '../../../admin/operate/args.js'
import { SpooldError } from '../../../base/errors.js'
import { parseDuration } from '../../../base/time-text.js'
import { resolveOptions } from '../../../formats/config/options.js'
import type { SpoolConfig } from '../../../formats/config/spools.js'
import { COMMAND_LINE } from '../../../formats/ini/read-config.js'
import { formatProblem, type Setting } from '../../../formats/ini/setting.js'
import type { ScalingOptions } from '../../../runtime/supervisor/scaling/algorithm.js'
import {
  ALGORITHMS,
  loadAlgorithm,
  type NamedAlgorithm,
} from '../../../runtime/supervisor/scaling/algorithms.js'
import { checkScaling } from '../../check/check-scaling.js'
import { initialWorkers, scalingOptions } from '../../daemon/pool-plan.js'
import { lookerOf } from '../acting-owner.js'
import { type CommandContext, sourcesOf } from '../context.js'
import { placeAt, readSources } from '../places.js'
import { arrivalsOf, PATTERNS, readCsv, readLog } from '../scaling/load.js'
import { chartOf, csvOf, summaryColumns } from '../scaling/report.js'
import { type Arrivals, type Simulation, type SimulationOptions, simulate } from '../scaling/simulate.js'
import { screenOf } from '../screen.js'
import { Table } from '../table.js'

interface ScalingCommandOptions {
  readonly load?: string
  readonly fromLog?: string
  readonly pattern?: string
  readonly spool?: string
  readonly algorithms?: string
  readonly startTime?: string
  readonly processors?: string
  readonly set?: readonly string[]
  readonly json?: boolean
  readonly csv?: boolean
}

/** How long a simulated worker takes to start without `--start-time`: the time of a small handler. */
const START_MS = 400
/** The simulation ends this long after the last task arrived, even if tasks are left: the pool does not keep up. */
const GIVE_UP_MICROS = 86_400_000_000
const SEED = 1
const MAX_PROCESSORS = 1024

/**
 * `spoold scaling app.ini --load FILE`: lets each algorithm decide about simulated workers under a load, with the options of
 * the configuration, and shows how they compare.
 *
 * @returns 1 if the configuration cannot be read, or a module fails
 */
export async function scaling(
  files: readonly string[],
  options: ScalingCommandOptions,
  context: CommandContext,
): Promise<number> {
  const { output } = context
  output.purpose = 'look'
  const sources = { ...sourcesOf([], context), commandLine: settingsOf(files, options.set ?? []) }
  const read = await readSources(sources, output)
  const resolved = resolveOptions(read)
  checkScaling(resolved, process.cwd(), read.problems)
  const { errors } = read.problems
  for (const problem of errors) output.complainAtLength(formatProblem(problem))
  if (errors.length > 0) return 1
  const settings = spoolOf(resolved.spools, options.spool) ?? resolved.anySpool
  if (settings.options.spoolerConcurrency > 1)
    output.complain(
      'simulated with one task per process at a time: spooler-concurrency is not taken into account',
    )
  const { spoolerCheaper, spoolerProcesses } = settings.options
  // without `cheaper`, one process at least
  const pool = scalingOptions(
    { ...settings.options, spoolerCheaper: Math.max(1, spoolerCheaper) },
    Math.max(1, spoolerProcesses),
  )
  const arrivals = await arrivalsFor(options, pool.maximum, context)
  const given: SimulationOptions = {
    scaling: { ...pool, processors: processorsOf(options.processors) },
    initial: initialWorkers(settings.options.spoolerCheaperInitial, pool),
    tickMicros: (resolved.options.spoolerCheckIntervalMs || 1000) * 1000,
    startMicros: startMicrosOf(options.startTime),
    untilMicros: (arrivals.arrivedAt.at(-1) ?? 0) + 1e6,
    giveUpMicros: GIVE_UP_MICROS,
  }
  const names = (options.algorithms ?? defaultNames(settings.options.spoolerCheaperAlgo)).split(',')
  const modules = names.map(name => name.trim()).filter(name => name.includes('/'))
  const code = modules.map(name => resolve(name))
  const looker = code.length === 0 ? null : lookerOf(resolved, code)
  if (looker !== null) {
    const { identity, because } = looker
    output.complain(`the algorithms are run as uid ${identity.uid}, ${because}`)
    await context.ownProcess.become(identity)
  }
  const simulations = await Promise.all(names.map(name => simulated(name.trim(), arrivals, given)))
  show(simulations, given.scaling, options, context)
  const problems = simulations.flatMap(simulation => simulation.problems)
  for (const problem of problems) output.complain(problem)
  return problems.length > 0 ? 1 : 0
}

/** Returns the settings that name the files, and then those of `--set`, which override them. */
function settingsOf(files: readonly string[], set: readonly string[]): Setting[] {
  const where = { file: COMMAND_LINE }
  const given = set.map(text => {
    const [key = '', ...value] = text.split('=')
    return { key: key.trim(), value: value.length > 0 ? value.join('=').trim() : 'true', where }
  })
  return [...files.map(value => ({ key: 'ini', value, where })), ...given]
}

function show(
  simulations: readonly Simulation[],
  { maximum, waitMicros }: ScalingOptions,
  { json, csv }: ScalingCommandOptions,
  { output, env }: CommandContext,
): void {
  if (json) for (const simulation of simulations) output.json(simulation)
  else if (csv) for (const line of csvOf(simulations)) output.line(line)
  else {
    const screen = screenOf(env)
    const table = new Table(summaryColumns(waitMicros / 1000), screen, line => output.painted(line))
    for (const simulation of simulations) table.add(simulation)
    table.end()
    output.line('')
    for (const line of chartOf(simulations, maximum, screen)) output.line(line)
  }
}

/** @throws SpooldError USAGE */
function arrivalsFor(
  { load, fromLog, pattern, spool }: ScalingCommandOptions,
  maximum: number,
  { stdin }: CommandContext,
): Promise<Arrivals> | Arrivals {
  const given = [load, fromLog, pattern].filter(each => each !== undefined)
  if (given.length !== 1)
    throw new SpooldError('USAGE', 'expected one of --load FILE, --from-log FILE and --pattern NAME')
  if (load !== undefined) return readCsv(load, stdin)
  if (fromLog !== undefined) return readLog(fromLog, stdin, spool)
  const [, found] = Object.entries(PATTERNS).find(([name]) => name === pattern) ?? []
  if (found !== undefined) return arrivalsOf(found, maximum, SEED)
  throw wrongArg('--pattern', `one of ${Object.keys(PATTERNS).join(', ')}`, pattern)
}

/** Returns the spool to simulate; undefined if the configuration has none. @throws SpooldError USAGE if it is not clear which */
function spoolOf(spools: readonly SpoolConfig[], wanted: string | undefined): SpoolConfig | undefined {
  const own = spools.filter(({ isExternal }) => !isExternal)
  const place = wanted === undefined ? undefined : placeAt(wanted)
  const found =
    place === undefined ? own : own.filter(({ directory }) => placeAt(directory).spool === place.spool)
  if (found.length === 1 || (wanted === undefined && own.length === 0)) return found[0]
  const names = own.map(({ directory }) => directory).join(', ') || 'none'
  throw new SpooldError('USAGE', `--spool: expected one of those of the configuration (${names})`)
}

/** Returns the algorithms that are compared without `--algorithms`: the configured one first, a fixed number of workers last. */
function defaultNames(configured: string): string {
  const names = ALGORITHMS.map(({ name }) => name).filter(name => name !== 'manual' && name !== configured)
  return [configured, ...names, FIXED].join(',')
}

/** The name of an algorithm that has the maximum number of workers all the time. */
const FIXED = 'fixed'

async function simulated(name: string, arrivals: Arrivals, given: SimulationOptions): Promise<Simulation> {
  if (name === FIXED) {
    const manual = await loadAlgorithm('manual')
    const fixed: NamedAlgorithm = { ...manual, name: FIXED }
    return simulate(fixed, arrivals, { ...given, initial: given.scaling.maximum })
  }
  const algorithm = await loadAlgorithm(name)
  if (name !== 'cheap') return simulate(algorithm, arrivals, given)
  return simulate(algorithm, arrivals, { ...given, scaling: { ...given.scaling, minimum: 0 }, initial: 0 })
}

/** @throws SpooldError USAGE */
function startMicrosOf(text: string | undefined): number {
  if (text === undefined) return START_MS * 1000
  const ms = parseDuration(text)
  if (ms !== undefined && ms >= 0) return ms * 1000
  throw wrongArg('--start-time', 'a time such as 400ms or 2s', text)
}

/** @throws SpooldError USAGE */
function processorsOf(text: string | undefined): number {
  if (text === undefined) return availableParallelism()
  const count = Number(text)
  if (Number.isInteger(count) && count >= 1 && count <= MAX_PROCESSORS) return count
  throw wrongArg('--processors', `a number from 1 to ${MAX_PROCESSORS}`, text)
}
