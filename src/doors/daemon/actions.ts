import type { Emitter } from '../../base/events/emitter.js'
import type { CancelNews } from '../../base/task/cancel.js'
import type { ParkedPart } from '../../base/task/parked.js'
import { scheduleHash } from '../../base/task/schedule.js'
import { ControlError } from '../../formats/control/protocol.js'
import type { Collector } from '../../runtime/stats/collector.js'
import type { DaemonSnapshot, ScheduleSnapshot } from '../../runtime/stats/snapshot.js'
import type { Master } from '../../runtime/supervisor/master.js'
import type { Wish } from '../../runtime/supervisor/pool-size.js'
import { type Action, type ActionTable, actionFor } from '../control/actions.js'
import type { Schedules } from './schedules.js'

/** What a daemon as a whole can be told to do. `because` is for people: a signal's name, or who asked. */
export interface Orders {
  /** Takes no more tasks, and lets the running ones end. */
  stop(because: string): void
  /** Ends now. */
  kill(signal: string): void
  reload(because: string): void
  /** True while no task and no signal is given out. */
  setQuiet(isQuiet: boolean, because: string): void
  toggleQuiet(because: string): void
  scanNow(): void
  /** Logs what every process does. */
  dump(): void
  reopenLog(): void
}

/** Who asks, if no signal does. */
export const CLIENT = 'a control client'

interface Acting {
  readonly events: Emitter
  readonly master: Master
  readonly schedules: Schedules
  readonly stats: Collector
  readonly watch: { readonly action: Action; readonly recall: Action }
  readonly lines: { readonly action: Action }
  readonly orders: Orders
  readonly config: Action
}

/** What clients of the control sockets can ask for. docs/control.md lists it. */
export function actionsOf({
  events,
  master,
  schedules,
  stats,
  watch,
  lines,
  orders,
  config,
}: Acting): ActionTable {
  const order = (run: () => void) => actionFor('operator', {}, () => run())
  const actions: ActionTable = {
    snapshot: actionFor('viewer', { 'spool?': 'text' }, async ({ spool }, { role }) =>
      onlyOf(await stats.snapshotFor({ mayReadPayload: role === 'operator' }), spool),
    ),
    wait: watch.action,
    ended: watch.recall,
    next: naming(master, 'next'),
    later: naming(master, 'later'),
    parked: parkedAction(master),
    config,
    events: lines.action,
    scale: scaleAction(master),
    ...scheduleActions(schedules, events),
    signal: signalAction(schedules),
    quiet: order(() => orders.setQuiet(true, CLIENT)),
    unquiet: order(() => orders.setQuiet(false, CLIENT)),
    scan: order(() => orders.scanNow()),
    reload: order(() => orders.reload(CLIENT)),
    'reopen-log': order(() => orders.reopenLog()),
    stop: order(() => orders.stop(CLIENT)),
    cancel: cancelAction(master),
  }
  const seenAtOnce = ([name, action]: [string, Action]) =>
    [name, action.role === 'viewer' ? action : outdating(stats, action)] as const
  return Object.fromEntries(Object.entries(actions).map(seenAtOnce))
}

/** Makes the next snapshot new after the action, so that whoever has changed something sees the change. */
function outdating(stats: Collector, action: Action): Action {
  return {
    ...action,
    async run(...call) {
      try {
        return await action.run(...call)
      } finally {
        stats.outdate()
      }
    },
  }
}

function onlyOf(snapshot: DaemonSnapshot, spool: string | undefined): DaemonSnapshot {
  if (spool === undefined) return snapshot
  return { ...snapshot, spools: snapshot.spools.filter(({ directory }) => directory === spool) }
}

const NAMED_ARGS = { spool: 'text', 'limit?': 'count', 'from?': 'count' } as const
/** How many tasks `next` and `later` (NAMED), and `parked` per reason and name (PARKED), name if the client gives no limit. */
const NAMED = 50
const PARKED = 5

function naming(master: Master, which: 'next' | 'later'): Action {
  return actionFor('viewer', NAMED_ARGS, async ({ spool, limit = NAMED, from = 0 }) => ({
    pid: process.pid,
    tasks: known(spool, await master.feedOf(spool)?.[which]?.(limit, from)),
  }))
}

function parkedAction(master: Master): Action {
  const args = { ...NAMED_ARGS, 'reason?': 'text', 'name?': 'text' } as const
  return actionFor('viewer', args, async ({ spool, limit = PARKED, from = 0, reason, ...name }) => {
    // an unknown reason selects nothing
    const part = reason === undefined ? undefined : ({ ...name, reason, from } as ParkedPart)
    return { pid: process.pid, groups: known(spool, await master.feedOf(spool)?.parked?.(limit, part)) }
  })
}

function known<T>(spool: string, told: T | undefined): T {
  if (told === undefined) throw new ControlError('failed', `this daemon does not run ${spool}`)
  return told
}

/** `scale`: sets by hand how many processes a spool has. */
function scaleAction(master: Master): Action {
  return actionFor('operator', { spool: 'text', to: 'text' }, ({ spool, to }) => {
    const found = master.pools.find(each => each.spool === spool)
    const pool = known(spool, found)
    pool.size.set(wishOf(to), 'by hand')
    const { wanted, present, size } = pool.stats
    return { pid: process.pid, wanted, present, size }
  })
}

/** `4`, `+1`, `-1` or `auto` */
function wishOf(text: string): Wish {
  if (text === 'auto') return 'auto'
  const [, sign, digits] = /^([+-]?)([0-9]{1,6})$/.exec(text) ?? []
  if (digits === undefined)
    throw new ControlError('invalid-args', `expected N, +N, -N or auto, got ${JSON.stringify(text)}`)
  const count = Number(digits)
  if (sign === '') return { to: count }
  return { by: sign === '-' ? -count : count }
}

function signalAction(schedules: Schedules): Action {
  return actionFor('operator', { number: 'count' }, ({ number }) => {
    if (number > 255)
      throw new ControlError('invalid-args', `signal: expected a number from 0 to 255, got ${number}`)
    if (!schedules.router.raise(number))
      throw new Error(`there is no room for signal ${number}: too many wait`)
  })
}

/** How often a waiting client hears from the daemon, so that it can tell a daemon that waits from one that hangs. */
const NEWS_EVERY_MS = 2000

/** `cancel` answers when the task has ended. The request stays if the client goes away. */
function cancelAction(master: Master): Action {
  return actionFor('operator', { spool: 'text', task: 'text' }, async ({ spool, task }, { send }) => {
    let last: CancelNews | null = null
    const timer = setInterval(() => send(last), NEWS_EVERY_MS)
    try {
      return await master.cancel(spool, task, news => {
        last = news
        send(news)
      })
    } finally {
      clearInterval(timer)
    }
  })
}

/** `run`, `pause`, `resume` and `remove` of one schedule. Each answers with a text for people that says what was done. */
function scheduleActions(schedules: Schedules, events: Emitter): ActionTable {
  const { pauses } = schedules
  const on = (verb: string, act: (found: ScheduleSnapshot) => Promise<string> | string) =>
    actionFor('operator', { spool: 'text', schedule: 'text' }, async ({ spool, schedule: id }) => {
      const found = (await schedules.plan()).find(each => each.id === id && each.spool === spool)
      if (found === undefined)
        throw new ControlError(
          'failed',
          `this daemon has no schedule ${id} in ${spool}: spoold schedules lists them`,
        )
      const done = await act(found)
      events.emit('schedule-changed', { spool, schedule: found.schedule, verb, done })
      return { pid: process.pid, done }
    })
  return {
    run: on('run', found => schedules.run(found)),
    pause: on('pause', async found => {
      if (isPassing(found)) throw new ControlError('failed', 'it ends by itself: remove it instead')
      await pauses.pause(found.spool ?? '', scheduleHash(found.schedule))
      return 'paused, until it is resumed'
    }),
    resume: on('resume', async found =>
      (await pauses.resume(found.spool ?? '', scheduleHash(found.schedule)))
        ? 'resumed'
        : 'it was not paused',
    ),
    remove: on('remove', async found => {
      if (!schedules.remove(found))
        throw new ControlError('failed', `${ORIGINS[found.origin]}: pause it until that changes`)
      await pauses.resume(found.spool ?? '', scheduleHash(found.schedule))
      return 'removed'
    }),
  }
}

const ORIGINS: Readonly<Record<ScheduleSnapshot['origin'], string>> = {
  configuration: 'the configuration has it',
  handlers: 'the handlers have it',
  code: 'it is gone, or the handlers have it',
}

/** True for a timer that ends by itself: a pause of it would also pause later timers that are like it. */
function isPassing({ origin, schedule }: ScheduleSnapshot): boolean {
  return origin === 'code' && schedule.kind === 'timer' && schedule.iterations > 0
}
