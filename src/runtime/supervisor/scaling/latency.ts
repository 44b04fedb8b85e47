import { census, type Decision, grow, hold, type Snapshot } from './algorithm.js'

// What is known of the load

/** At most this share of the tasks may wait longer than the goal: p95. */
const LATE = 0.05
/** Of tasks that run for many times the goal, more may find all workers busy: one more is ready before they have waited long. */
const LATE_OF_LONG = 3.5 * LATE
const LONG_RUN = 8

interface Window {
  /** After which what was seen counts for about a third. */
  readonly seconds: number
  /** How far beyond chance it has to be before it counts. */
  readonly deviations: number
}

/**
 * Arrivals are counted over each of these. The longest knows best while nothing changes; each shorter one corrects it, but
 * only by what is beyond chance.
 */
const WINDOWS: readonly Window[] = [
  { seconds: 120, deviations: 0 },
  { seconds: 20, deviations: 3 },
  { seconds: 4, deviations: 2.5 },
  { seconds: 0.5, deviations: 4 },
]
/** So many times as far beyond chance, the load is another one: what was counted before says nothing about it. */
const ANOTHER = 2
/** The longest window lasts for so many runs at least. */
const LONGEST_RUNS = 40
/** The window that says what the last seconds were like. */
const RECENT = 2
/** The arrival rate may be higher than it seems by so many deviations. */
const DOUBT = 1.75
const ENDED_MEMORY_S = 4
const RUNS_MEMORY_S = 180

/** A sum in which what is old counts less and less. */
interface Fading {
  readonly sum: number
  /** Over how many seconds, faded alike. */
  readonly seconds: number
}

/** What is known of the load. It fades, so that it takes the same room however long it is kept. */
export interface Load {
  readonly atMicros: number
  /** In each of `WINDOWS`. */
  readonly arrivals: readonly Fading[]
  readonly ended: Fading
  readonly runs: number
  readonly runSeconds: number
  readonly runSecondsSquared: number
  /** Tasks that had waited for longer than the goal, of all that ended. */
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
  // most decisions see no run: a histogram of none is not gone through
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
    // the deviation of a faded count, of which one task more or less says nothing
    const chance = deviations * Math.sqrt((own + 1 / counted.seconds) / (2 * counted.seconds))
    isAnother ||= Math.abs(own - rate) > ANOTHER * chance
    rate = Math.min(own + chance, Math.max(own - chance, rate))
  }
  return { rate, isAnother }
}

/** When the load has become another one, longer windows begin again, with what is beyond chance in the shortest one. */
function ofThisLoad(arrivals: Load['arrivals']): Load['arrivals'] {
  const { rate, isAnother } = estimate(arrivals)
  const shortest = arrivals.at(-1)
  if (!isAnother || shortest === undefined) return arrivals
  const { seconds } = shortest
  return [...arrivals.slice(0, -1).map(() => ({ sum: rate * seconds, seconds })), shortest]
}

/** How many it may be in truth, as far as is known. */
function highestRate(load: Load): number {
  const rate = arrivalRate(load)
  const seen = 2 * rate * longestSeconds(load)
  const doubt = seen > 4 ? DOUBT / Math.sqrt(seen) : 1
  return Math.max(rate * (1 + doubt), rateOf(load.arrivals[RECENT] ?? NONE))
}

function longestSeconds(load: Load): number {
  return Math.max(WINDOWS[0]?.seconds ?? 0, LONGEST_RUNS * (meanRun(load) ?? 0))
}

/** Seconds; undefined: no task has ended of late. */
function meanRun({ runs, runSeconds }: Load): number | undefined {
  return runs > 0.01 ? runSeconds / runs : undefined
}

/** The squared deviation of run times as a share of the squared mean: 0 if all are alike, 1 if exponential. */
function variability({ runs, runSeconds, runSecondsSquared }: Load): number {
  if (runs <= 0.01 || runSeconds === 0) return 1
  return Math.max(0, runSecondsSquared / runs / (runSeconds / runs) ** 2 - 1)
}

/** The share of tasks that have waited too long. */
function lateShare({ late, started }: Load): number {
  return started > 0.01 ? late / started : 0
}

/** What share of the tasks may find no worker in time. @param runSeconds how long they run */
function shareAllowed(runSeconds: number, goalSeconds: number): number {
  return runSeconds > LONG_RUN * goalSeconds ? LATE_OF_LONG : LATE
}

// A reserve for bursts

/** After so many seconds or runs without a late task, a burst is over, or is mastered: now it can be judged. */
const CALM_S = 10
const CALM_RUNS = 10
/** A burst is not the only one if the last one was so many seconds ago at most. After as long, one worker less will do. */
const MEMORY_S = 300
/** More late tasks than are allowed by so many deviations are no chance. */
const DEVIATIONS = 2
const MOST_AT_ONCE = 3

/** How many workers are kept beyond what is needed, for bursts that come again: workers that have to start first are late. */
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

/** Learns from each burst but the first one how many it takes, and forgets it slowly. */
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

/** So many late tasks are nearly too many. */
const NEARLY = 0.8 * LATE
/** A queue that is as likely as that is no reason to grow. */
const CHANCE = 0.0001
/** In so many times the goal, tasks that wait for as long as the goal are to have begun; those that wait longer, sooner. */
const DRAIN = 1.5
const SLOWEST_DRAIN = 4
const FASTEST_DRAIN = 0.5
/** For how long a need is remembered, in seconds. */
const HOLD_S = 4
/** Seconds between two stops. */
const STOP_PACE_S = 1
/** As many as there are processors start at once; and again after so long, if those are not ready. */
const START_PACE_MICROS = 300_000
/** Growth is judged when so many seconds have passed, and not tried again for so many if it did not help. */
const JUDGED_S = 5
const GIVEN_UP_S = 60

interface State {
  readonly load: Load
  readonly reserve: Reserve
  /** How many workers were needed, and when; later ones need fewer. */
  readonly needs: ReadonlyArray<readonly [atMicros: number, workers: number]>
  readonly lastStopMicros: number
  readonly lastGrowthMicros: number
  /** What the pool did when all were busy, before it grew. */
  readonly grown?: { readonly atMicros: number; readonly from: number; readonly rate: number } | undefined
  /** More do not help: until then, no more than these. */
  readonly limit?: { readonly untilMicros: number; readonly workers: number } | undefined
}

const NOTHING = { reserve: NO_RESERVE, needs: [], lastStopMicros: 0, lastGrowthMicros: 0 }

/**
 * Keeps the time that a due task waits under a goal: as many workers as it takes for the tasks that arrive and the time that
 * they run (Little's law), and for those that wait already. Grows at once, and shrinks slowly.
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
 * How many more may start now. All that start together are ready together, and late. If some take their time nevertheless,
 * it is not for want of processors.
 */
function atOnce(snapshot: Snapshot, lastGrowthMicros: number): number {
  const { options, nowMicros } = snapshot
  const { coming } = census(snapshot)
  return nowMicros - lastGrowthMicros >= START_PACE_MICROS ? options.processors : options.processors - coming
}

interface Need {
  readonly now: number
  /** For the highest arrival rate that there may be in truth: only what is beyond that may go. */
  readonly most: number
}

function need(snapshot: Snapshot, load: Load, reserve: number): Need {
  const { options, backlog } = snapshot
  const { present, busy, coming } = census(snapshot)
  const seconds = meanRun(load)
  if (seconds === undefined) {
    // nothing is known as yet: twice as many while tasks wait and all are busy
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
 * So many workers that what waits becomes less: the longer tasks wait, the sooner they are to have begun, so that a small queue
 * takes one worker more, and a burst all it can get. 0: that they wait is no more than chance.
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

/** Adds a need and forgets the old ones, and those that a later one exceeds. */
function remember(needs: State['needs'], now: number, workers: number): State['needs'] {
  const kept = needs.filter(([at, earlier]) => now - at < HOLD_S * 1e6 && earlier > workers)
  return [...kept, [now, workers]]
}

/** Whether the last growth has helped: with all busy, more should end per second. */
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
 * The share of tasks that find all servers busy, of those that arrive at random (Erlang's C formula).
 *
 * @param load how many servers would be busy all the time: arrivals per second times seconds per run
 */
function shareQueued(servers: number, load: number): number {
  if (load >= servers) return 1
  let blocked = 1 // Erlang's B formula, which counts up
  for (let count = 1; count <= servers; count++) blocked = (load * blocked) / (count + load * blocked)
  return blocked / (1 - (load / servers) * (1 - blocked))
}

/** How likely it is, by chance, that so many tasks wait. */
function chanceOfQueue(servers: number, load: number, waiting: number): number {
  return shareQueued(servers, load) * Math.min(1, load / servers) ** waiting
}

/**
 * How many servers it takes so that no more than `share` of the tasks wait longer than `wait` seconds. Where run times are
 * not exponential, waits are stretched as Allen and Cunneen have it.
 *
 * @param seconds how long a run takes
 * @param variability squared deviation over squared mean of the run times
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
