import { census, type Decision, grow, hold, type Snapshot } from './algorithm.js'

// The load: arrivals, run times and waits, as far as they are known

/** The share of tasks that may wait longer than the goal: p95. */
const LATE = 0.05
/** The same for tasks that run for many times the goal: compared with their run, the start of another worker is a short wait. */
const LATE_OF_LONG = 3.5 * LATE
const LONG_RUN = 8

interface Window {
  /** After this time, an observation counts for about a third. */
  readonly seconds: number
  /** How many standard deviations a difference must exceed before it counts. */
  readonly deviations: number
}

/**
 * Arrivals are counted over each of these windows. While nothing changes, the longest window knows best. Each shorter window
 * corrects it, but only by what is beyond chance.
 */
const WINDOWS: readonly Window[] = [
  { seconds: 120, deviations: 0 },
  { seconds: 20, deviations: 3 },
  { seconds: 4, deviations: 2.5 },
  { seconds: 0.5, deviations: 4 },
]
/** A difference of this many times the chance means that the load has changed: older counts say nothing about the new load. */
const ANOTHER = 2
/** The longest window lasts at least this many runs. */
const LONGEST_RUNS = 40
/** The index of the window that stands for the last seconds. */
const RECENT = 2
/** By how many standard deviations the true arrival rate may exceed the estimate. */
const DOUBT = 1.75
const ENDED_MEMORY_S = 4
const RUNS_MEMORY_S = 180

/** A sum in which older values count less and less. */
interface Fading {
  readonly sum: number
  /** The seconds over which it was summed, faded in the same way. */
  readonly seconds: number
}

/** What is known of the load. Its sums fade, so it takes the same memory however long it is kept. */
export interface Load {
  readonly atMicros: number
  /** In each of `WINDOWS`. */
  readonly arrivals: readonly Fading[]
  readonly ended: Fading
  readonly runs: number
  readonly runSeconds: number
  readonly runSecondsSquared: number
  /** The number of tasks that had waited for longer than the goal; `started` is the number of all tasks with a known wait. */
  readonly late: number
  readonly started: number
}

const NONE: Fading = { sum: 0, seconds: 0 }

export function emptyLoad(atMicros: number): Load {
  const counts = { runs: 0, runSeconds: 0, runSecondsSquared: 0, late: 0, started: 0 }
  return { atMicros, arrivals: WINDOWS.map(() => NONE), ended: NONE, ...counts }
}

export function noteLoad(load: Load, { nowMicros, arrived, finished, runs, waits, options }: Snapshot): Load {
  const seconds = Math.max(0, (nowMicros - load.atMicros) / 1e6)
  const kept = Math.exp(-seconds / RUNS_MEMORY_S)
  let squared = 0
  // most decisions see no run, so an empty histogram is skipped
  if (runs.count > 0) for (const [below, count] of runs.buckets) squared += count * (below / 1e6) ** 2
  let late = 0
  if (waits.count > 0)
    for (const [below, count] of waits.buckets) if (below > options.waitMicros * 1.5) late += count
  return {
    atMicros: nowMicros,
    arrivals: ofThisLoad(
      WINDOWS.map((window, i) =>
        fade(load.arrivals[i] ?? NONE, seconds, i === 0 ? longestSeconds(load) : window.seconds, arrived),
      ),
    ),
    ended: fade(load.ended, seconds, ENDED_MEMORY_S, finished),
    runs: load.runs * kept + runs.count,
    runSeconds: load.runSeconds * kept + runs.sum / 1e6,
    runSecondsSquared: load.runSecondsSquared * kept + squared,
    late: load.late * kept + late,
    started: load.started * kept + waits.count,
  }
}

function fade({ sum, seconds }: Fading, passed: number, memory: number, more: number): Fading {
  const kept = Math.exp(-passed / memory)
  return { sum: sum * kept + more, seconds: seconds * kept + memory * (1 - kept) }
}

/** Per second. */
function rateOf({ sum, seconds }: Fading): number {
  return seconds > 0 ? sum / seconds : 0
}

/** How many tasks arrive per second. */
export function arrivalRate({ arrivals }: Load): number {
  return estimate(arrivals).rate
}

function estimate(arrivals: Load['arrivals']): { readonly rate: number; readonly isAnother: boolean } {
  let rate = rateOf(arrivals[0] ?? NONE)
  let isAnother = false
  for (const [i, { deviations }] of WINDOWS.entries()) {
    const counted = arrivals[i] ?? NONE
    if (i === 0 || counted.seconds === 0) continue
    const own = rateOf(counted)
    // the deviation of a faded count; one task more or less is no difference
    const chance = deviations * Math.sqrt((own + 1 / counted.seconds) / (2 * counted.seconds))
    isAnother ||= Math.abs(own - rate) > ANOTHER * chance
    rate = Math.min(own + chance, Math.max(own - chance, rate))
  }
  return { rate, isAnother }
}

/** If the load has changed, the longer windows begin again with the estimate of the shortest window. */
function ofThisLoad(arrivals: Load['arrivals']): Load['arrivals'] {
  const { rate, isAnother } = estimate(arrivals)
  const shortest = arrivals.at(-1)
  if (!isAnother || shortest === undefined) return arrivals
  const { seconds } = shortest
  return [...arrivals.slice(0, -1).map(() => ({ sum: rate * seconds, seconds })), shortest]
}

/** The highest arrival rate that the observations allow. */
function highestRate(load: Load): number {
  const rate = arrivalRate(load)
  const seen = 2 * rate * longestSeconds(load)
  const doubt = seen > 4 ? DOUBT / Math.sqrt(seen) : 1
  return Math.max(rate * (1 + doubt), rateOf(load.arrivals[RECENT] ?? NONE))
}

function longestSeconds(load: Load): number {
  return Math.max(WINDOWS[0]?.seconds ?? 0, LONGEST_RUNS * (meanRun(load) ?? 0))
}

/** The mean run time in seconds; undefined: no task has ended recently. */
function meanRun({ runs, runSeconds }: Load): number | undefined {
  return runs > 0.01 ? runSeconds / runs : undefined
}

/** The variance of run times divided by their squared mean: 0 if all are equal, 1 if they are exponential. */
function variability({ runs, runSeconds, runSecondsSquared }: Load): number {
  if (runs <= 0.01 || runSeconds === 0) return 1
  return Math.max(0, runSecondsSquared / runs / (runSeconds / runs) ** 2 - 1)
}

/** The share of tasks that have waited longer than the goal. */
function lateShare({ late, started }: Load): number {
  return started > 0.01 ? late / started : 0
}

/** The share of tasks that may wait longer than the goal. @param runSeconds the mean run time */
function shareAllowed(runSeconds: number, goalSeconds: number): number {
  return runSeconds > LONG_RUN * goalSeconds ? LATE_OF_LONG : LATE
}

// A reserve for bursts

/** After this many seconds and mean runs without a late task, a burst is over and can be judged. */
const CALM_S = 10
const CALM_RUNS = 10
/** Two bursts within this time belong together. After this time without a change, the reserve gives up one worker. Seconds. */
const MEMORY_S = 300
/** If late tasks exceed the allowed number by this many standard deviations, that is no chance. */
const DEVIATIONS = 2
const MOST_AT_ONCE = 3

/** Workers that are kept beyond the need, for bursts that come again: workers that would have to start first come too late. */
export interface Reserve {
  readonly workers: number
  readonly changedMicros: number
  /** When the last burst was judged. */
  readonly judgedMicros: number | undefined
  /** When tasks of a burst that is not judged yet were last late. */
  readonly lateMicros: number | undefined
}

export const NO_RESERVE: Reserve = {
  workers: 0,
  changedMicros: 0,
  judgedMicros: undefined,
  lateMicros: undefined,
}

/** Learns from every burst but the first how many workers it takes, and forgets that slowly. */
export function learn(reserve: Reserve, snapshot: Snapshot, before: Load, load: Load): Reserve {
  const { nowMicros, options } = snapshot
  const { workers, changedMicros, judgedMicros, lateMicros } = reserve
  const isPast = (micros: number, seconds: number) => nowMicros - micros >= seconds * 1e6
  const runSeconds = meanRun(load) ?? 0
  const share = shareAllowed(runSeconds, options.waitMicros / 1e6)

  if (workers > 0 && load.started < 1) return NO_RESERVE // nothing has run for long
  if (load.late > before.late) return { ...reserve, lateMicros: nowMicros }
  if (lateMicros !== undefined && isPast(lateMicros, Math.max(CALM_S, CALM_RUNS * runSeconds))) {
    const judged = { ...reserve, judgedMicros: nowMicros, lateMicros: undefined }
    const isFirst = judgedMicros === undefined || isPast(judgedMicros, MEMORY_S)
    if (isFirst || !isTooLate(load, share)) return judged
    const more = Math.max(1, Math.min(MOST_AT_ONCE, Math.round(lateShare(load) / share)))
    return { ...judged, workers: Math.min(options.maximum, workers + more), changedMicros: nowMicros }
  }
  const isGood = load.late < 1 || lateShare(load) < share / 2
  if (workers > 0 && isGood && isPast(changedMicros, MEMORY_S))
    return { ...reserve, workers: workers - 1, changedMicros: nowMicros }
  return reserve
}

function isTooLate({ late, started }: Load, share: number): boolean {
  const allowed = share * started
  return late > allowed + DEVIATIONS * Math.sqrt(allowed)
}

// The algorithm

/** From this share of late tasks on, they are nearly too many. */
const NEARLY = 0.8 * LATE
/** A queue that is at least this likely by chance is no reason to grow. */
const CHANCE = 0.0001
/**
 * How soon waiting tasks are to begin, in multiples of the goal: DRAIN if they would wait as long as the goal; the longer they would
 * wait, the sooner, within the two limits.
 */
const DRAIN = 1.5
const SLOWEST_DRAIN = 4
const FASTEST_DRAIN = 0.5
/** For how long a need is remembered, in seconds. */
const HOLD_S = 4
/** Seconds between two stops. */
const STOP_PACE_S = 1
/** As many workers as there are processors start at once. If these are not ready after this time, as many start again. */
const START_PACE_MICROS = 300_000
/** Growth is judged after JUDGED_S. If it did not help, it is not tried again for GIVEN_UP_S. Seconds. */
const JUDGED_S = 5
const GIVEN_UP_S = 60

interface State {
  readonly load: Load
  readonly reserve: Reserve
  /** How many workers were needed, and when, oldest first. Each later need is smaller. */
  readonly needs: ReadonlyArray<readonly [atMicros: number, workers: number]>
  readonly lastStopMicros: number
  readonly lastGrowthMicros: number
  /** The size and the rate of the pool before it grew with all workers busy. */
  readonly grown?: { readonly atMicros: number; readonly from: number; readonly rate: number } | undefined
  /** More workers do not help: until `untilMicros` there are at most `workers`. */
  readonly limit?: { readonly untilMicros: number; readonly workers: number } | undefined
}

const NOTHING = { reserve: NO_RESERVE, needs: [], lastStopMicros: 0, lastGrowthMicros: 0 }

/**
 * Keeps the time that due tasks wait below a goal: as many workers as it takes for the tasks that arrive and the time that they run
 * (Little's law), and for the tasks that wait already. Grows at once, and shrinks slowly.
 */
export function latency(snapshot: Snapshot, before?: State): Decision<State> {
  const { nowMicros, canSpawn, options, workers } = snapshot
  const state = before ?? { load: emptyLoad(snapshot.openedMicros), ...NOTHING }
  const load = noteLoad(state.load, snapshot)
  const { present, busy } = census(snapshot)
  const reserve = learn(state.reserve, snapshot, state.load, load)
  const needed = need(snapshot, load, reserve.workers)
  const needs = remember(state.needs, nowMicros, needed.most)
  const most = needs[0]?.[1] ?? needed.most
  const judged = judge(state, snapshot, load)
  const next = { ...state, load, reserve, needs, ...judged }
  if (workers.length === 0) return { target: hold(snapshot), state: next, reason: 'no worker lives' }
  const reason = `${needed.now} needed now, ${most} of late`
  const allowed = Math.min(needed.now, judged.limit?.workers ?? options.maximum)

  const more = Math.min(allowed - present, atOnce(snapshot, state.lastGrowthMicros))
  if (canSpawn && more > 0) {
    const target = grow(snapshot, more, options.step ?? options.maximum)
    const rate = rateOf(load.ended)
    const grown = busy === present ? { atMicros: nowMicros, from: present, rate } : undefined
    return { target, state: { ...next, lastGrowthMicros: nowMicros, grown: judged.grown ?? grown }, reason }
  }
  const isTime = nowMicros - state.lastStopMicros >= STOP_PACE_S * 1e6
  if (most < present && isTime && present > options.minimum)
    return {
      target: present - Math.ceil((present - most) / 4),
      state: { ...next, lastStopMicros: nowMicros },
      reason,
    }
  return { target: hold(snapshot), state: next, reason }
}

/**
 * How many more workers may start now. If more start together than there are processors, all are ready late. If some are not ready
 * after START_PACE_MICROS, that is not for want of processors, so more may start.
 */
function atOnce(snapshot: Snapshot, lastGrowthMicros: number): number {
  const { options, nowMicros } = snapshot
  const { coming } = census(snapshot)
  return nowMicros - lastGrowthMicros >= START_PACE_MICROS ? options.processors : options.processors - coming
}

interface Need {
  readonly now: number
  /** The need at the highest arrival rate that the observations allow: only workers beyond this number may go. */
  readonly most: number
}

function need(snapshot: Snapshot, load: Load, reserve: number): Need {
  const { options, backlog } = snapshot
  const { present, busy, coming } = census(snapshot)
  const seconds = meanRun(load)
  if (seconds === undefined) {
    // nothing is known yet: the pool doubles while tasks wait and no worker is coming
    const now = backlog > 0 && coming === 0 ? Math.min(2 * Math.max(1, present), busy + backlog) : present
    return { now, most: now }
  }
  const goal = options.waitMicros / 1e6
  const share = shareAllowed(seconds, goal)
  const steady = (rate: number) =>
    serversFor(rate * seconds, seconds, variability(load), goal, share, options.maximum - reserve) + reserve
  const waiting = Math.min(options.maximum, draining(snapshot, load, seconds, goal))
  const now = Math.max(options.minimum, steady(arrivalRate(load)), waiting)
  return { now, most: Math.max(now, steady(highestRate(load))) }
}

/**
 * How many workers drain the tasks that wait. The longer they would wait, the sooner they are to begin, so a small queue takes one
 * more worker, and a burst all it can get. 0 if the queue is no more than chance.
 */
function draining(snapshot: Snapshot, load: Load, seconds: number, goal: number): number {
  const { backlog } = snapshot
  const { busy, present, coming } = census(snapshot)
  if (backlog === 0 || present === 0) return Math.min(backlog, 1)
  const work = Math.max(0, backlog - (present - busy)) * seconds
  if (work / present <= goal / 4) return 0
  if (lateShare(load) < NEARLY && chanceOfQueue(present, arrivalRate(load) * seconds, backlog) > CHANCE)
    return 0
  const wait = work / Math.max(1, present - coming)
  const within = Math.min(SLOWEST_DRAIN, Math.max(FASTEST_DRAIN, (DRAIN * goal) / wait)) * goal
  const each = within / seconds // tasks that one worker ends in that time
  return busy + Math.ceil((backlog - busy * each) / (1 + each))
}

/** Adds a need, and forgets old needs and those that the new one exceeds. */
function remember(needs: State['needs'], now: number, workers: number): State['needs'] {
  const kept = needs.filter(([at, earlier]) => now - at < HOLD_S * 1e6 && earlier > workers)
  return [...kept, [now, workers]]
}

/** Judges whether the last growth has helped: with all workers busy, more tasks should end per second. */
function judge(state: State, snapshot: Snapshot, load: Load): Pick<State, 'grown' | 'limit'> {
  const { nowMicros, backlog } = snapshot
  const { present, busy, coming } = census(snapshot)
  const limit = state.limit !== undefined && state.limit.untilMicros > nowMicros ? state.limit : undefined
  const { grown } = state
  if (grown === undefined || coming > 0 || busy < present || backlog === 0)
    return { limit, grown: coming > 0 ? grown : undefined }
  if (nowMicros - grown.atMicros < JUDGED_S * 1e6) return { limit, grown }
  const expected = grown.rate * (present / grown.from - 1)
  const got = rateOf(load.ended) - grown.rate
  if (got >= expected / 4) return { limit, grown: undefined }
  return { limit: { untilMicros: nowMicros + GIVEN_UP_S * 1e6, workers: present }, grown: undefined }
}

/**
 * The share of randomly arriving tasks that find all servers busy (Erlang's C formula).
 *
 * @param load arrivals per second times seconds per run: how many servers would always be busy
 */
function shareQueued(servers: number, load: number): number {
  if (load >= servers) return 1
  let blocked = 1 // Erlang's B formula, which counts up
  for (let count = 1; count <= servers; count++) blocked = (load * blocked) / (count + load * blocked)
  return blocked / (1 - (load / servers) * (1 - blocked))
}

/** How likely it is that this many tasks wait by chance. */
function chanceOfQueue(servers: number, load: number, waiting: number): number {
  return shareQueued(servers, load) * Math.min(1, load / servers) ** waiting
}

/**
 * The smallest number of servers with which at most `share` of the tasks wait longer than `wait` seconds. If run times are not
 * exponential, waits are stretched by the approximation of Allen and Cunneen.
 *
 * @param seconds how long a run takes
 * @param variability the variance of run times divided by their squared mean
 */
function serversFor(
  load: number,
  seconds: number,
  variability: number,
  wait: number,
  share: number,
  most: number,
): number {
  const stretch = Math.max(0.1, (1 + variability) / 2)
  for (let servers = Math.max(1, Math.ceil(load)); servers < most; servers++) {
    const late = shareQueued(servers, load) * Math.exp((-(servers - load) * wait) / (seconds * stretch))
    if (late <= share) return servers
  }
  return most
}
