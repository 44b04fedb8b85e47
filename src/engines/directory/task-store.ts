import { closeSync, constants, statSync } from 'node:fs'
import { errnoOf, messageOf, quietly } from '../../base/errors.js'
import type { Pause, PausedPair } from '../../base/task/pause.js'
import { baseName, displayName, type Ref, toByteString, toFsPath } from '../../base/task/ref.js'
import { HEADER_BYTES, packetBytesOf } from '../../formats/protocol/header.js'
import { openSafely } from '../../system/files/anchored-path.js'
import type { Purged, PurgeLimits } from '../contracts/upkeep.js'
import { findParked } from '../control/parked-tasks.js'
import { isAway } from '../redis/store-failure.js'
import { type AuditEntry, readAudit, writeAudit } from '../spool/admin/audit.js'
import {
  type Changed,
  change,
  type OpenSpool,
  openSpool,
  refused,
  remove,
  type TargetFile,
} from '../spool/admin/change.js'
import { isTaskPath, Namesakes } from '../spool/admin/fate.js'
import { hold, kick, NO_PACKET, release } from '../spool/admin/hold.js'
import { inOrder, type Scan } from '../spool/admin/in-order.js'
import { cancel, overLimits, purge, requeue } from '../spool/admin/letters.js'
import { Listing } from '../spool/admin/listing.js'
import { OldKeys, type Parcel, type Received, receive, rename, send } from '../spool/admin/move.js'
import { SpoolView, type TaskView } from '../spool/admin/task-view.js'
import { hiddenKeysOf } from '../spool/hidden-keys.js'
import { createdAtMicros } from '../spool/names.js'
import { currentPauses, maySeePauses, pauseSpool, resumeSpool } from '../spool/pauses.js'
import { inDirectoryOf } from '../spool/priority-directory.js'
import type { ScanVisitor } from '../spool/scan.js'
import { readBody } from '../spool/spool-file.js'
import { findId } from '../spool/store/draft.js'
import type { Change, Ended, ListingPlan, Resumed, TaskStore, Wanted } from '../task-store.js'
import { finishCancel } from './cancel-running.js'
import { DirectoryEnqueuer } from './enqueuer.js'
import { nextTasks } from './next-tasks.js'
import { SpoolWaiter } from './spool-waiter.js'

/** The tasks of a spool directory. */
export class DirectoryTaskStore implements TaskStore {
  readonly spool: string
  readonly #path: string
  readonly #look: SpoolView
  readonly #sockets: readonly string[] | undefined
  #locking: Promise<OpenSpool> | undefined
  readonly #oldKeys: OldKeys
  readonly #namesakes: Namesakes

  private constructor(path: string, look: SpoolView, sockets: readonly string[] | undefined) {
    this.spool = look.spool
    this.#path = path
    this.#oldKeys = new OldKeys(this.spool)
    this.#namesakes = new Namesakes(this.spool)
    this.#look = look
    this.#sockets = sockets
  }

  /** @param path the spool's real path @see openTaskStore */
  static async open(
    path: string,
    { asksDaemons = false, sockets }: { asksDaemons?: boolean; sockets?: readonly string[] | undefined },
  ): Promise<DirectoryTaskStore> {
    const spool = toByteString(path)
    const parked = asksDaemons ? await findParked(spool, sockets) : undefined
    const look = new SpoolView(spool, (ref, vars) => parked?.whyOf(ref, vars))
    return new DirectoryTaskStore(path, look, sockets)
  }

  hide() {
    return hiddenKeysOf(this.spool)
  }

  find(id: string): Ref | undefined {
    return quietly(() => findId(this.spool, id))
  }

  named(name: Ref): TaskView[] {
    if (!isTaskPath(name)) return []
    const there = this.#look.view(name)
    if (there !== undefined) return [there]
    return this.#namesakes.of(name).flatMap(ref => this.#look.view(ref) ?? [])
  }

  view(ref: Ref): TaskView | undefined {
    return this.#look.view(ref)
  }

  async *views(
    { states, mayHave, isInOrder, failed = rethrown }: Wanted,
    counted?: (count: number) => void,
  ): AsyncGenerator<TaskView> {
    const hasDead = states.includes('dead')
    if (hasDead && counted !== undefined) counted(await this.#countDead(mayHave))
    const refsOf = isInOrder === true ? refsInOrder : allRefs
    if (states.some(state => state !== 'dead'))
      for await (const refs of refsOf(this.#look, { mayHave, counted, failed }))
        for (const ref of refs) yield* this.#viewOf(ref)
    if (hasDead) for await (const ref of this.#look.dead()) if (mayHave(ref)) yield* this.#viewOf(ref)
  }

  async #countDead(mayHave: Wanted['mayHave']): Promise<number> {
    let count = 0
    for await (const ref of this.#look.dead()) if (mayHave(ref)) count++
    return count
  }

  *#viewOf(ref: Ref): Generator<TaskView> {
    const task = this.#look.view(ref)
    if (task !== undefined) yield task
  }

  async list(plan: ListingPlan, take: (task: TaskView) => boolean): Promise<string | undefined> {
    const { states, failed } = plan
    const next = isFirst(plan) ? await nextTasks(this.#look, plan) : undefined
    if (next !== undefined) {
      next.tasks.every(take)
      return next.source
    }
    const listing = new Listing(this.#look, plan)
    let isWanted = true
    const offer = (task: TaskView) => {
      isWanted = take(task)
      return isWanted
    }
    if (states === undefined || states.some(state => state !== 'dead')) await listing.living(offer)
    if (!isWanted || (states !== undefined && !states.includes('dead'))) return undefined
    try {
      await listing.dead(offer)
    } catch (error) {
      if (errnoOf(error) === undefined) throw error
      failed('.spoold/dead', error) // only the spool's user may read it
    }
    return undefined
  }

  body({ ref, file: { bytes, bodyOffset } }: TaskView, mostBytes = Number.POSITIVE_INFINITY): Buffer {
    return inDirectoryOf(this.spool, ref, directory => {
      const fd = openSafely(`${directory}/${baseName(ref)}`, constants.O_RDONLY)
      try {
        return readBody(fd, bodyOffset, Math.min(bytes - bodyOffset, mostBytes))
      } finally {
        closeSync(fd)
      }
    })
  }

  async change(task: TaskView, what: Change, say: (text: string) => void = () => {}): Promise<Changed> {
    const at = { ...(await this.lock()), sockets: this.#sockets }
    try {
      if (what.kind === 'move') return await moveTask(at, task.ref, what.to)
      const changed = await change(at, task.ref, file => actOn(at, task, file, what))
      const isOver = changed.kind === 'done' || changed.kind === 'refused'
      return isOver || what.kind !== 'cancel' ? changed : await finishCancel(at, task, changed, say)
    } catch (error) {
      if (isAway(error)) throw error
      return refused(messageOf(error))
    }
  }

  async receive(parcel: Parcel, key: string): Promise<Received> {
    return receive(await this.lock(), parcel, key)
  }

  forget(key: string): void {
    this.#oldKeys.add(key)
  }

  /** Opens the spool for changes, with the locking of any daemon that may run on it. */
  lock(): Promise<OpenSpool> {
    this.#locking ??= openSpool(this.#path)
    return this.#locking
  }

  async countPurgeable(limits: PurgeLimits): Promise<number> {
    let count = 0
    for await (const _name of overLimits(this.spool, limits)) count++
    return count
  }

  purge(limits: PurgeLimits, passed?: () => void, signal?: AbortSignal): Promise<Purged> {
    return purge(this.#path, limits, passed, signal)
  }

  awaitEnds(refs: readonly Ref[], tell: (ref: Ref, how: Ended) => void, signal: AbortSignal): Promise<Ref[]> {
    return new SpoolWaiter(this.#path, refs, tell).run(signal)
  }

  pauses() {
    return maySeePauses(this.spool) ? currentPauses(this.spool) : null
  }

  pause(pause: Pause) {
    return pauseSpool(this.#path, pause)
  }

  resume(which: PausedPair | null | 'all'): Promise<Resumed> {
    return resumeSpool(this.#path, which)
  }

  audit(entry: AuditEntry): void {
    writeAudit(this.spool, entry)
  }

  readAudit(most: number): AuditEntry[] {
    return readAudit(this.spool, most)
  }
}

type OwnChange = Exclude<Change, { kind: 'move' }>

function actOn(at: OpenSpool, task: TaskView, file: TargetFile, what: OwnChange): Changed {
  switch (what.kind) {
    case 'hold':
      return hold(at, file)
    case 'release':
      return release(at, file)
    case 'kick':
      return kick(at, file)
    case 'remove':
      return remove(at, file)
    case 'bury':
    case 'cancel':
      return cancel(at, file)
    case 'requeue':
      return requeue(at, file, what)
    case 'replace':
      return replaceTask(at, task, file, what.request)
  }
}

function rethrown(_prefix: string, error: unknown): never {
  throw error
}

/** True if the tasks that start first are wanted, because a daemon may know those. */
function isFirst({ sort, isReversed }: ListingPlan): boolean {
  return sort === 'run' && !isReversed
}

interface Walk {
  readonly mayHave: Wanted['mayHave']
  /** Called with the number of tasks, before the first of them is yielded. */
  readonly counted?: ((count: number) => void) | undefined
  /** Called for each priority that cannot be listed. */
  readonly failed: ScanVisitor['failed']
}

/** Yields all living tasks of a spool at once, before any of them is changed: changes would change the listing. */
async function* allRefs(look: SpoolView, { mayHave, counted, failed }: Walk): AsyncGenerator<readonly Ref[]> {
  const refs: Ref[] = []
  await look.scan(ref => {
    if (mayHave(ref)) refs.push(ref)
    return true
  }, failed)
  counted?.(refs.length)
  yield refs
}

/**
 * Yields all living tasks of a spool, one window of refs at a time, by priority and by the time in their names, which no
 * change of a task alters.
 */
async function* refsInOrder(
  look: SpoolView,
  { mayHave, counted, failed }: Walk,
): AsyncGenerator<readonly Ref[]> {
  let isFirst = true
  const offerAll: Scan = async offer => {
    let count = 0
    const offerOne = (ref: Ref) => {
      if (!mayHave(ref)) return true
      count++
      offer(ref, createdAtMicros(ref) ?? 0)
      return true
    }
    await look.scan(offerOne, isFirst ? failed : () => {}) // the spool is listed once for each window, its failures are told once
    if (isFirst) counted?.(count)
    isFirst = false
  }
  yield* inOrder(offerAll, { byPriority: true, isReversed: false })
}

type RequestFor = Extract<Change, { kind: 'replace' }>['request']

/** Stores another task, and then removes this one, which is locked. After a kill in between, both are there. */
function replaceTask(at: OpenSpool, task: TaskView, file: TargetFile, requestFor: RequestFor): Changed {
  if (file.state === undefined) return NO_PACKET
  const spool = displayName(at.spool)
  const request = requestFor(task, () => bodyOf(file))
  const { path } = new DirectoryEnqueuer(spool).storeSync(request)
  try {
    remove(at, file)
    return { kind: 'done', to: toByteString(path.slice(spool.length + 1)) }
  } catch (error) {
    return refused(
      `the edited task is stored as ${path}, but this one cannot be removed: ${messageOf(error)}`,
    )
  }
}

function bodyOf({ fd, stats }: TargetFile): Buffer {
  const packetBytes = packetBytesOf(readBody(fd, 0, HEADER_BYTES))
  return readBody(fd, packetBytes, stats.size - packetBytes)
}

/**
 * Moves a task to another store, by a rename if possible.
 *
 * @throws the error that leaves it unknown whether the task has arrived
 */
async function moveTask(from: OpenSpool, ref: Ref, to: TaskStore): Promise<Changed> {
  if (to.spool === from.spool) return refused('it is there already')
  const target = to instanceof DirectoryTaskStore ? await to.lock() : undefined
  const isNear = target !== undefined && isOnOneFileSystem(from.spool, target.spool)
  return change(
    from,
    ref,
    async file => (isNear ? rename(from, target, file) : undefined) ?? carry(from, file, to),
  )
}

function isOnOneFileSystem(...spools: readonly string[]): boolean {
  const [one, other] = spools.map(spool => statSync(toFsPath(spool)).dev)
  return one === other
}

/**
 * Moves a task to another store in steps. If a kill interrupts them, the same move, given again, continues where it was:
 *
 * 1. The task is held here, with the key by which the other store will know it. No daemon runs it.
 * 2. The task is in the other store, where it may run. Bringing it once more with its key has no effect.
 * 3. The task is removed here.
 * 4. The other store may forget the key.
 *
 * @throws the error that leaves it unknown whether the task has arrived
 */
async function carry(from: OpenSpool, file: TargetFile, to: TaskStore): Promise<Changed> {
  const sent = send(from, file, displayName(to.spool))
  if ('kind' in sent) return sent
  const received = await to.receive(sent.parcel, sent.key)
  if (received.kind === 'refused') {
    sent.takeBack()
    return refused(received.detail)
  }
  remove(from, file)
  await to.forget(sent.key)
  return { kind: 'done', to: received.ref }
}
