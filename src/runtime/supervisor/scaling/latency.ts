import { census, type Decision, grow, hold, type Snapshot } from './algorithm.js'
import {
  arrivalRate,
  emptyLoad,
  highestRate,
  LATE,
  type Load,
  lateShare,
  learn,
  meanRun,
  NO_RESERVE,
  noteLoad,
  type Reserve,
  rateOf,
  shareAllowed,
  variability,
} from './latency-load.js'

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
