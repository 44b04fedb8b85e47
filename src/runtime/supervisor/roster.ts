import { countDown } from '../../base/clock.js'
import { errnoOf, SpooldError, toError } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import type { RespawnPace } from '../../base/respawn-pace.js'
import type { Exit, SpawnOptions } from './worker-port.js'
import { type WorkerListener, WorkerProcess } from './worker-process.js'

export interface RosterOptions extends SpawnOptions {
  /** How long a worker that is stopped or replaced may take to finish what it runs. */
  readonly mercyMs: number
}

interface RosterListener extends WorkerListener {
  /** The worker is ready, and is one of the pool. */
  joined(worker: WorkerProcess): void
  /** The worker has exited. @param mayBeReplaced false for a worker that a reload was waiting for, and while the pool ends */
  exited(worker: WorkerProcess, exit: Exit, mayBeReplaced: boolean): void
  /** There may be fewer workers than the target. */
  vacant(): void
}

/** A fork stops this process until the other one executes, on a busy machine for 100 ms: between so many, others are heard. */
const SPAWNED_AT_ONCE = 4

/**
 * Keeps the workers of a pool alive: spawns them, stops them, and replaces those that exited, at a pace that depends
 * on how they exited.
 *
 * States: open → closed (no worker is spawned any more).
 */
export class Roster {
  readonly workers = new Set<WorkerProcess>()
  /** The number of workers that there should be; `fill` and `trim` bring it about. */
  target = 0
  /** The workers that are spawned but not yet part of the pool: a reload waits for them to become ready. */
  readonly #aside = new Set<WorkerProcess>()
  /** The options of workers that are spawned from now on. */
  options: RosterOptions
  readonly #listener: RosterListener
  readonly #events: Emitter
  readonly #pace: RespawnPace
  /** The timers of delayed respawns. */
  readonly #respawns = new Set<NodeJS.Timeout>()
  /** The workers that were asked to stop. */
  readonly #stopped = new Set<WorkerProcess>()
  /** How long the workers that are gone were busy, by worker number; ms. */
  readonly #pastMs = new Map<number, number>()
  #filling: NodeJS.Immediate | undefined
  #isClosed = false

  constructor(options: RosterOptions, listener: RosterListener, pace: RespawnPace, events: Emitter) {
    this.options = options
    this.#listener = listener
    this.#pace = pace
    this.#events = events
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** The number of workers that are not draining. */
  get present(): number {
    let present = 0
    for (const { state } of this.workers) if (state !== 'draining') present++
    return present
  }

  /** How long all workers that have had this worker's number were busy; ms. Never decreases. */
  busyMsOf(worker: WorkerProcess): number {
    return (this.#pastMs.get(this.numberOf(worker)) ?? 0) + worker.work.activity.busyMs
  }

  /**
   * The worker's number, as in uWSGI: the lowest from 1 that no other worker has. It is assigned when somebody first asks, because
   * otherwise the workers of a reload would have higher numbers than the workers that they replace.
   */
  numberOf(worker: WorkerProcess): number {
    if (worker.number !== undefined) return worker.number
    const taken = new Set(Array.from(this.workers, ({ number }) => number))
    let free = 1
    while (taken.has(free)) free++
    worker.number = free
    return free
  }

  /** The number of respawns that wait for their delay. */
  get delayed(): number {
    return this.#respawns.size
  }

  /** Spawns workers up to the target, except those whose respawn is still delayed: a few now, and the others in later turns. */
  fill(): void {
    if (this.#isClosed || this.#filling !== undefined) return
    for (let left = SPAWNED_AT_ONCE; this.target - this.present - this.delayed > 0; left--) {
      if (left === 0) {
        this.#filling = setImmediate(() => {
          this.#filling = undefined
          this.fill()
        })
        return
      }
      if (!this.#trySpawn()) return
    }
  }

  /** Dismisses as many workers beyond the target as can go now. */
  trim(): void {
    if (this.excess <= 0 || this.#isClosed) return
    for (const worker of dispensable(this.workers, this.excess, this.target)) {
      const { spool, pid, work } = worker
      const isLoading = worker.state === 'starting'
      const idleMs = isLoading ? null : performance.now() - work.activity.idleSince
      this.#events.emit('worker-cheaped', { spool, pid, idleMs })
      void this.dismiss(worker)
      if (isLoading) worker.killForMercy() // it has no tasks
    }
  }

  /** The number of workers beyond the target. */
  get excess(): number {
    return this.present - this.target
  }

  /**
   * Spawns a worker that gets no tasks until `takeIn`.
   *
   * @throws SpooldError START_FAILED when it cannot even be forked
   */
  spawnAside(options: RosterOptions = this.options): WorkerProcess {
    const worker = this.#spawn(options)
    this.#aside.add(worker)
    return worker
  }

  /**
   * Resolves with the worker when it is ready, or with one that was spawned aside in its place. A worker that dies of SIGHUP while it
   * boots is replaced a few times: Node starts with the default action of each signal, and a SIGHUP to the whole process group, which
   * asks for a reload, reaches the worker, too.
   *
   * @param options the options with which the worker was spawned
   * @throws SpooldError why the worker, or the last one in its place, did not start
   */
  async ready(
    worker: WorkerProcess,
    options: RosterOptions = this.options,
    spawnsLeft = 3,
  ): Promise<WorkerProcess> {
    try {
      await worker.whenReady
      return worker
    } catch (error) {
      const isHungUp = errnoOf(error) === 'START_FAILED' && (await worker.whenExited).signal === 'SIGHUP'
      if (!isHungUp || spawnsLeft === 0 || this.#isClosed) throw error
      return this.ready(this.spawnAside(options), options, spawnsLeft - 1)
    }
  }

  /** Makes a worker that was spawned aside part of the pool. */
  takeIn(worker: WorkerProcess): void {
    if (!this.#isClosed && this.#aside.delete(worker) && worker.state !== 'exited') this.#add(worker)
  }

  /** Lets the worker finish what it runs, and kills it if that takes too long. Resolves when it has exited. */
  async stop(worker: WorkerProcess, mercyMs?: number): Promise<void> {
    this.#stopped.add(worker)
    if (worker.hasOwnProcess) this.#events.emit('worker-stopping', { spool: worker.spool, pid: worker.pid })
    await this.dismiss(worker, mercyMs)
  }

  /** As `stop`, but without the event. The only place that ends a worker gracefully: drain, mercy, SIGKILL. */
  async dismiss(worker: WorkerProcess, mercyMs = this.options.mercyMs): Promise<void> {
    worker.drain(mercyMs)
    const end = countDown(mercyMs, () => {
      const { spool, pid, work } = worker
      this.#events.emit('worker-out-of-mercy', { spool, pid, running: work.running })
      worker.killForMercy()
    })
    await worker.whenExited
    end()
  }

  async stopAll(mercyMs?: number): Promise<void> {
    this.#close()
    await Promise.all(this.#all.map(worker => this.stop(worker, mercyMs)))
  }

  async killAll(): Promise<void> {
    this.#close()
    const all = this.#all
    for (const worker of all) worker.killForMercy()
    await Promise.all(all.map(worker => worker.whenExited))
  }

  get #all(): WorkerProcess[] {
    return [...this.workers, ...this.#aside]
  }

  /** Shortens pending respawn delays: tasks end again, so workers no longer fail for a common reason. */
  hasten(): void {
    const { size } = this.#respawns
    this.#forgetRespawns()
    for (let i = 0; i < size; i++) this.#respawnIn(this.#pace.delayOfBurst())
  }

  #close(): void {
    this.#isClosed = true
    this.#forgetRespawns()
  }

  /** Returns false when the worker could not be forked; a retry is then scheduled. */
  #trySpawn(): boolean {
    try {
      const worker = this.#spawn(this.options)
      this.#add(worker)
      worker.whenReady.catch(error => {
        if (error.code === 'HANDLER_UNLOADABLE')
          this.#events.emit('worker-unloadable', { spool: worker.spool, error: error.message })
      })
      return true
    } catch {
      this.#replaceFailed(0)
      return false
    }
  }

  #spawn(options: RosterOptions): WorkerProcess {
    const { spool } = options.worker
    let worker: WorkerProcess
    try {
      worker = new WorkerProcess(options, this.#listener, this.#events)
    } catch (error) {
      this.#events.emit('worker-fork-failed', { spool, error: toError(error).message })
      throw new SpooldError('START_FAILED', `no worker could be forked: ${toError(error).message}`)
    }
    if (worker.hasOwnProcess) this.#events.emit('worker-spawned', { spool, pid: worker.pid })
    void worker.whenExited.then(exit => this.#exited(worker, exit))
    return worker
  }

  #add(worker: WorkerProcess): void {
    this.workers.add(worker)
    worker.whenReady.then(
      () => this.#listener.joined(worker),
      () => {},
    )
  }

  #exited(worker: WorkerProcess, exit: Exit): void {
    const { spool, pid } = worker
    const wasAside = this.#aside.delete(worker)
    this.workers.delete(worker)
    if (worker.number !== undefined) this.#pastMs.set(worker.number, this.busyMsOf(worker))
    if (exit.unforked !== undefined) this.#events.emit('worker-fork-failed', { spool, error: exit.unforked })
    else if ((this.#stopped.delete(worker) || this.#isClosed) && worker.hasOwnProcess)
      this.#events.emit('worker-stopped', { spool, pid })
    const mayBeReplaced = !wasAside && !this.#isClosed
    this.#listener.exited(worker, exit, mayBeReplaced)
    if (!mayBeReplaced) return
    const hasFailed = exit.why === 'failed' || exit.why === 'faulted'
    if (hasFailed && !worker.isAtWork) this.#replaceFailed(performance.now() - worker.spawnedAt)
    else if (this.excess + this.delayed < 0) this.#respawnIn(0)
  }

  #replaceFailed(livedMs: number): void {
    const delayMs = this.#pace.failed(livedMs)
    const { spool } = this.options.worker
    if (delayMs > 0) this.#events.emit('worker-respawn-delayed', { spool, delayMs })
    this.#respawnIn(delayMs)
  }

  #respawnIn(delayMs: number): void {
    if (this.#isClosed) return
    const timer = setTimeout(() => {
      this.#respawns.delete(timer)
      this.#listener.vacant()
    }, delayMs)
    this.#respawns.add(timer)
  }

  #forgetRespawns(): void {
    for (const timer of this.#respawns) clearTimeout(timer)
    this.#respawns.clear()
  }
}

/**
 * The workers that are to go first: those that have been idle longest. A busy worker stays. The last ready worker stays, too,
 * unless the target is 0: a worker that still loads goes in its place, because that one may never become ready.
 *
 * @param excess how many workers are to go @param target how many are to stay
 */
export function dispensable(
  workers: Iterable<WorkerProcess>,
  excess: number,
  target: number,
): readonly WorkerProcess[] {
  const all = [...workers]
  const ready = all.filter(({ state }) => state === 'ready')
  const idle = ready.filter(({ work }) => work.outstanding === 0)
  idle.sort((a, b) => a.work.activity.idleSince - b.work.activity.idleSince)
  const gone = idle.slice(0, Math.min(excess, target === 0 ? ready.length : ready.length - 1))
  if (gone.length === idle.length) return gone
  return [...gone, ...all.filter(({ state }) => state === 'starting').slice(0, excess - gone.length)]
}
