import type { Role } from '../../base/task/roles.js'
import type { TaskState } from '../../engines/spool/admin/task-view.js'
import type { Change } from '../../engines/task-store.js'
import { type Args, given, type SpoolActor } from './args.js'
import { edit, enqueue, onSchedule, pause, resume, scale } from './spool-actions.js'

interface Common {
  /** The least role that may do it. */
  readonly role: Role
  /** What people read once it is done: `held`. */
  readonly done: string
  /** The names of the arguments that the action knows. */
  readonly args: readonly string[]
  /**
   * True if the action brings a new task, which runs code as far as handlers do. It is off unless the configuration allows it.
   */
  readonly isNewWork: boolean
}

export interface TaskAction extends Common {
  readonly on: 'task'
  /** The states in which a task can have the action. */
  readonly states: readonly TaskState[]
  /** True if it can be done to all tasks that a filter selects. */
  readonly inBulk: boolean
  /** True if what it removes does not come back. */
  readonly isFinal: boolean
  /** Returns the change that a store is to make. */
  change(args: Args): Change
}

export interface SpoolAction extends Common {
  readonly on: 'spool'
  /**
   * Arguments that name values of tasks. Without the right to read payloads they are refused, because values could be found by
   * trying.
   */
  readonly payloadArgs: readonly string[]
  /** @param spool its real path @returns what has been done, for people @throws Error why it was not done */
  run(spool: string, args: Args, by?: SpoolActor): Promise<string>
}

export type Action = TaskAction | SpoolAction

/** The states of living tasks that are not running. */
const AT_REST = ['due', 'waiting', 'retrying', 'held'] as const

const ON_TASK = { on: 'task', args: [], inBulk: true, isFinal: false, isNewWork: false } as const
const ON_SPOOL = { on: 'spool', isNewWork: false, payloadArgs: [] } as const
const ON_SCHEDULE = { ...ON_SPOOL, role: 'operator', args: ['schedule'] } as const

/** What people can do to tasks and spools, wherever they do it. Actions of operators can be undone. */
export const ACTIONS = {
  requeue: {
    ...{ ...ON_TASK, role: 'operator', done: 'requeued', states: ['dead'], args: ['keepAttempts'] },
    change: args => ({ kind: 'requeue', keepAttempts: given(args, 'keepAttempts') !== undefined }),
  },
  kick: { ...ON_TASK, role: 'operator', done: 'kicked', states: AT_REST, change: () => ({ kind: 'kick' }) },
  hold: {
    ...{ ...ON_TASK, role: 'operator', done: 'held', states: ['due', 'waiting', 'retrying'] },
    change: () => ({ kind: 'hold' }),
  },
  release: {
    ...ON_TASK,
    role: 'operator',
    done: 'released',
    states: ['held'],
    change: () => ({ kind: 'release' }),
  },
  bury: { ...ON_TASK, role: 'operator', done: 'buried', states: AT_REST, change: () => ({ kind: 'bury' }) },
  cancel: {
    ...{ ...ON_TASK, role: 'operator', done: 'cancelled', states: ['running'] },
    change: () => ({ kind: 'cancel' }),
  },
  remove: {
    ...{ ...ON_TASK, role: 'admin', done: 'removed', isFinal: true },
    states: [...AT_REST, 'incomplete', 'malformed', 'dead'],
    change: () => ({ kind: 'remove' }),
  },
  edit: {
    ...{ ...ON_TASK, role: 'admin', done: 'edited and requeued', states: ['held', 'dead'] },
    ...{ args: ['vars', 'body'], inBulk: false, isNewWork: true },
    change: edit,
  },
  pause: {
    ...{ ...ON_SPOOL, role: 'operator', done: 'paused', args: ['key', 'until'] },
    ...{ payloadArgs: ['key'], run: pause },
  },
  resume: {
    ...{ ...ON_SPOOL, role: 'operator', done: 'resumed', args: ['key', 'all'] },
    ...{ payloadArgs: ['key'], run: resume },
  },
  'run-schedule': { ...ON_SCHEDULE, done: 'run', run: onSchedule('run') },
  'pause-schedule': { ...ON_SCHEDULE, done: 'paused', run: onSchedule('pause') },
  'resume-schedule': { ...ON_SCHEDULE, done: 'resumed', run: onSchedule('resume') },
  'remove-schedule': { ...ON_SCHEDULE, role: 'admin', done: 'removed', run: onSchedule('remove') },
  scale: { ...ON_SPOOL, role: 'operator', done: 'scaled', args: ['to'], run: scale },
  enqueue: {
    ...{ ...ON_SPOOL, role: 'admin', done: 'enqueued', args: ['vars', 'body', 'at', 'priority'] },
    ...{ isNewWork: true, run: enqueue },
  },
} as const satisfies Readonly<Record<string, Action>>

export type ActionName = keyof typeof ACTIONS

export function findAction(name: string): Action | undefined {
  return Object.hasOwn(ACTIONS, name) ? ACTIONS[name as ActionName] : undefined
}
