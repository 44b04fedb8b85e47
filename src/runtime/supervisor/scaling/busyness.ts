import {
  type Census,
  census,
  type Decision,
  grow,
  hold,
  type ScalingOptions,
  type Snapshot,
  shrink,
} from './algorithm.js'

const SECOND = 1_000_000

interface State {
  /** When the current window began. */
  readonly checkedAt: number
  /** The earliest time at which a worker may be stopped. */
  readonly nextCheap: number
  readonly lastCheaped: number | undefined
  readonly multiplier: number
  readonly lastAction: 'spawn' | 'cheap' | undefined
  /** The number of successive windows between `min` and `max`. */
  readonly tolerance: number
  readonly emergencyWorkers: number
  readonly nonzeroSince: number | undefined
  /** At how many ticks of the window each worker was busy, by worker number. */
  readonly busyTicks: ReadonlyMap<number, number>
  /** How long each worker had run by the last tick (`ran`), and by the beginning of the window (`ranBefore`), by worker number. */
  readonly ran: ReadonlyMap<number, number>
  readonly ranBefore: ReadonlyMap<number, number>
}

/**
 * Keeps the share of time in which workers run between `min` and `max`, measured over `overload` seconds. Stops a worker only after
 * a while, and spawns emergency workers when tasks wait (uWSGI, plugins/cheaper_busyness, line by line).
 */
export function busyness(snapshot: Snapshot, state: State = opening(snapshot)): Decision<State> {
  return new Cycle(snapshot, state).decide()
}

export function busynessSettings({ overload, busyness }: ScalingOptions): string[] {
  const { min, max, multiplier, penalty, backlogAlert, backlogStep, backlogNonzero } = busyness
  return [
    `[busyness] settings: min=${min}%, max=${max}%, overload=${overload}, multiplier=${multiplier}, respawn penalty=${penalty}`,
    `[busyness] backlog alert is set to ${backlogAlert} request(s), step is ${backlogStep}`,
    `[busyness] backlog non-zero alert is set to ${backlogNonzero} second(s)`,
  ]
}

function opening({ openedMicros, options }: Snapshot): State {
  const { multiplier } = options.busyness
  return {
    checkedAt: openedMicros,
    nextCheap: openedMicros + options.overload * multiplier * SECOND,
    lastCheaped: undefined,
    multiplier,
    lastAction: undefined,
    tolerance: 0,
    emergencyWorkers: 0,
    nonzeroSince: undefined,
    busyTicks: new Map(),
    ran: new Map(),
    ranBefore: new Map(),
  }
}

type Answer = Pick<Decision, 'target' | 'reason'>

/** One tick. It changes its own copy of the state. */
class Cycle {
  readonly #snapshot: Snapshot
  readonly #census: Census
  #state: State
  readonly #lines: string[] = []

  constructor(snapshot: Snapshot, state: State) {
    this.#snapshot = snapshot
    this.#census = census(snapshot)
    this.#state = state
  }

  decide(): Decision<State> {
    this.#noteWorkers()
    const answer = this.#answer()
    return { ...answer, state: this.#state, lines: this.#lines }
  }

  #noteWorkers(): void {
    const { busyTicks, ran } = this.#state
    const ticks = new Map<number, number>()
    const times = new Map(ran)
    for (const { number, isBusy, busyMicros } of this.#snapshot.workers) {
      ticks.set(number, (busyTicks.get(number) ?? 0) + (isBusy ? 1 : 0))
      times.set(number, busyMicros)
    }
    this.#set({ busyTicks: ticks, ran: times })
  }

  #answer(): Answer {
    const { nowMicros, workers, options } = this.#snapshot
    if (workers.length === 0) return this.#hold('no worker lives')
    if (nowMicros - this.#state.checkedAt < options.overload * SECOND) return this.#betweenWindows()

    const average = this.#measure()
    const { min, max } = options.busyness
    this.#say(
      `${options.overload}s average busyness of ${workers.length} worker(s) is at ${average}%`,
      'verbose',
    )
    if (average > max) return this.#tooBusy(average)
    if (this.#isAlert) return this.#emergency()
    if (average < min) return this.#idleWindow(average)
    return this.#toleratedWindow(average)
  }

  /** Ends the window. */
  #measure(): number {
    const { workers, options, nowMicros } = this.#snapshot
    const { ran, ranBefore, busyTicks } = this.#state
    let total = 0
    for (const { number } of workers) {
      const micros = (ran.get(number) ?? 0) - (ranBefore.get(number) ?? 0)
      let percent = Math.min(100, Math.floor((micros * 100) / (options.overload * SECOND)))
      const times = busyTicks.get(number) ?? 0
      if (micros === 0 && times > 0) {
        percent = 100
        this.#say(
          `worker ${number} was busy ${times} time(s) in last cycle but no request was completed during this time, marking as 100% busy`,
          'verbose',
        )
      }
      total += percent
      if (workers.length > 1)
        this.#say(`worker nr ${number} ${options.overload}s average busyness is at ${percent}%`, 'verbose')
    }
    this.#set({ checkedAt: nowMicros, busyTicks: new Map(), ranBefore: ran })
    return Math.floor(total / workers.length)
  }

  #tooBusy(average: number): Answer {
    const { options, canSpawn, nowMicros, workers } = this.#snapshot
    this.#set({ tolerance: 0 })
    const at = `${options.overload}s average busyness is at ${average}%`
    const spawned = canSpawn ? Math.min(this.#census.room, options.step ?? 1) : 0
    if (spawned === 0) {
      this.#say(
        `${at} but we already started maximum number of workers available with current limits (${workers.length})`,
      )
      return this.#hold(at)
    }
    const { lastCheaped, multiplier } = this.#state
    const { penalty } = options.busyness
    this.#set({ lastAction: 'spawn' })
    const windows =
      lastCheaped === undefined
        ? Number.POSITIVE_INFINITY
        : Math.floor((nowMicros - lastCheaped) / options.overload / SECOND)
    if (windows <= multiplier) {
      this.#set({ multiplier: multiplier + penalty })
      this.#say(
        `worker(s) respawned to fast, increasing cheaper multiplier to ${multiplier + penalty} (+${penalty})`,
      )
    } else this.#decreaseMultiplier()
    this.#setNextCheap()
    this.#say(`${at}, will spawn ${spawned} new worker(s)`)
    return { target: grow(this.#snapshot, spawned), reason: at }
  }

  /** With one worker, neither this method nor the next has anything to decide. */
  #idleWindow(average: number): Answer {
    const { options, nowMicros, workers } = this.#snapshot
    const at = `${options.overload}s average busyness is at ${average}%`
    if (workers.length === 1) return this.#hold(at)
    this.#set({ tolerance: 0 })
    if (this.#census.present <= options.minimum) return this.#hold(at)
    const { nextCheap, lastAction, emergencyWorkers } = this.#state
    if (nowMicros < nextCheap) {
      const seconds = Math.floor((nextCheap - nowMicros) / SECOND)
      this.#say(`need to wait ${seconds} more second(s) to cheap worker`, 'verbose')
      return this.#hold(`${at}, for ${seconds} s more`)
    }
    if (lastAction === 'cheap') this.#decreaseMultiplier()
    this.#setNextCheap()
    this.#say(`${at}, cheap one of ${workers.length} running workers`)
    this.#set({
      lastCheaped: nowMicros,
      lastAction: 'cheap',
      emergencyWorkers: Math.max(0, emergencyWorkers - 1),
    })
    return { target: shrink(this.#snapshot), reason: at }
  }

  #toleratedWindow(average: number): Answer {
    const { options, workers } = this.#snapshot
    const { nextCheap, emergencyWorkers } = this.#state
    const at = `${options.overload}s average busyness is at ${average}%`
    if (workers.length === 1) return this.#hold(at)
    const tolerance = this.#state.tolerance + 1
    this.#set({ tolerance, emergencyWorkers: Math.max(0, emergencyWorkers - 1) })
    const isReset = tolerance >= 3
    this.#say(
      `${at}, ${tolerance} non-idle cycle(s), ${isReset ? 'resetting' : 'adjusting'} cheaper timer`,
      'verbose',
    )
    if (isReset) this.#setNextCheap()
    else this.#set({ nextCheap: nextCheap + options.overload * SECOND })
    return this.#hold(at)
  }

  /** What happens at a tick that does not end a window. */
  #betweenWindows(): Answer {
    const { backlog, canSpawn, nowMicros, options } = this.#snapshot
    const { nonzeroSince } = this.#state
    if (this.#isAlert) return this.#emergency()
    if (backlog === 0) {
      if (nonzeroSince !== undefined) this.#say('backlog is now empty', 'verbose')
      this.#set({ nonzeroSince: undefined })
      return this.#hold('within a window')
    }
    if (nonzeroSince === undefined) {
      this.#say(`backlog is starting to fill (${backlog})`, 'verbose')
      this.#set({ nonzeroSince: nowMicros })
      return this.#hold(`${backlog} waiting`)
    }
    const seconds = Math.floor((nowMicros - nonzeroSince) / SECOND)
    if (!canSpawn || seconds < options.busyness.backlogNonzero) return this.#hold(`${backlog} waiting`)
    this.#say(`backlog was non-zero for ${seconds} second(s), spawning new worker(s)`)
    this.#set({ nonzeroSince: nowMicros })
    return this.#emergency()
  }

  get #isAlert(): boolean {
    const { backlog, canSpawn, options } = this.#snapshot
    return canSpawn && backlog > options.busyness.backlogAlert && this.#census.room > 0
  }

  #emergency(): Answer {
    const { backlog, options } = this.#snapshot
    const { backlogStep, multiplier } = options.busyness
    const spawned = Math.min(this.#census.room, backlogStep)
    this.#set({ multiplier, lastAction: 'spawn' })
    this.#setNextCheap()
    if (spawned === 0) {
      this.#say(
        `${backlog} requests in listen queue but we are already started maximum number of workers (${options.maximum})`,
      )
      return this.#hold(`${backlog} waiting`)
    }
    const emergencyWorkers = this.#state.emergencyWorkers + spawned
    this.#set({ emergencyWorkers })
    this.#say(
      `${backlog} requests in listen queue, spawning ${spawned} emergency worker(s) (${emergencyWorkers})!`,
    )
    return { target: grow(this.#snapshot, spawned, backlogStep), reason: `${backlog} waiting: emergency` }
  }

  #decreaseMultiplier(): void {
    const multiplier = this.#state.multiplier - 1
    if (multiplier < this.#snapshot.options.busyness.multiplier) return
    this.#set({ multiplier })
    this.#say(`decreasing cheaper multiplier to ${multiplier}`)
  }

  /** Sets the earliest time of the next stop, which is sooner while emergency workers run. */
  #setNextCheap(): void {
    const { nowMicros, options } = this.#snapshot
    const { emergencyWorkers, multiplier } = this.#state
    let windows = multiplier
    if (emergencyWorkers > 0) {
      windows = options.busyness.backlogMultiplier
      const seconds = options.overload * windows
      this.#say(
        `${emergencyWorkers} emergency worker(s) running, using ${seconds} seconds cheaper timer`,
        'verbose',
      )
    }
    this.#set({ nextCheap: nowMicros + options.overload * windows * SECOND })
  }

  #hold(reason: string): Answer {
    return { target: hold(this.#snapshot), reason }
  }

  #say(text: string, level?: 'verbose'): void {
    if (level === undefined || this.#snapshot.options.busyness.isVerbose)
      this.#lines.push(`[busyness] ${text}`)
  }

  #set(change: Partial<State>): void {
    this.#state = { ...this.#state, ...change }
  }
}
