import { ACTIONS, type ActionName } from '../../../admin/operate/actions.js'
import { WISH } from '../../../admin/operate/spool-actions.js'
import { ownStateOf, type TaskState } from '../../../engines/spool/admin/task-view.js'
import { type Intent, type Row, type TopState, targetsOf } from './state.js'

/** The actions on the tab of schedules, by the action that their key means elsewhere. */
const ON_SCHEDULES: Readonly<Partial<Record<ActionName, ActionName>>> = {
  kick: 'run-schedule',
  pause: 'pause-schedule',
  resume: 'resume-schedule',
  remove: 'remove-schedule',
}

/** The keys of actions: capitals. */
export const ACTION_KEYS: Readonly<Record<string, ActionName>> = {
  R: 'requeue',
  K: 'kick',
  H: 'hold',
  L: 'release',
  B: 'bury',
  C: 'cancel',
  D: 'remove',
  P: 'pause',
  U: 'resume',
  S: 'scale',
}

type IntentOrWhyNot = Intent | string

/** What an action would do now, or why it is impossible, in words for people. @param to the argument of `scale` */
export function intentOf(state: TopState, name: ActionName, to = ''): IntentOrWhyNot {
  const action = ACTIONS[name]
  if (state.tab === 'schedules' && name !== 'scale') return onSchedule(state, name)
  if (action.on === 'task') return onTasks(state, name, action.states, action.isFinal)
  if (name === 'scale') {
    if (!WISH.test(to)) return `expected N, +N, -N or auto, got ${JSON.stringify(to)}`
    return { action: name, rows: [], args: { to }, text: `set the number of processes to ${to}` }
  }
  return onSpool(state, name)
}

function onTasks(
  state: TopState,
  name: ActionName,
  states: readonly TaskState[],
  isFinal: boolean,
): IntentOrWhyNot {
  const targets = targetsOf(state).filter(({ task }) => task !== undefined)
  const rows = targets.filter(({ task }) => task !== undefined && states.includes(ownStateOf(task.state)))
  if (targets.length === 0) return `${name}: there is no task on this line`
  if (rows.length === 0) return `${name} is for tasks that are ${states.join(', ')}`
  const left = targets.length - rows.length
  const which = rows.length === 1 ? nameOf(rows[0]) : `${rows.length.toLocaleString('en')} tasks`
  const others = left === 0 ? '' : `, and leave ${left} that ${left === 1 ? 'is' : 'are'} in another state`
  return { action: name, rows, args: {}, text: `${name} ${which}${isFinal ? ' for good' : ''}${others}` }
}

function onSchedule({ look, cursor }: TopState, pressed: ActionName): IntentOrWhyNot {
  const name = ON_SCHEDULES[pressed]
  const row = look?.rows[cursor]
  if (name === undefined) return `${pressed} is not an action on schedules`
  if (row === undefined) return 'there is no schedule on this line'
  const text = `${name.replace('-schedule', '')} ${row.cells.at(-1) ?? ''}`
  return { action: name, rows: [], args: { schedule: row.id }, text }
}

function nameOf(row: Row | undefined): string {
  return row?.task === undefined ? '' : (row.cells.at(-1) ?? '')
}

/** On the tab of names, the action is for the name under the cursor. */
function onSpool(state: TopState, name: ActionName): IntentOrWhyNot {
  const { tab, look, cursor, spool } = state
  const task = tab === 'names' ? look?.rows[cursor]?.id : undefined
  if (tab === 'names' && task === undefined)
    return `${name}: there is no name on this line; other tabs ${name} the spool`
  const args: Readonly<Record<string, string>> =
    task === undefined ? (name === 'resume' ? { all: 'on' } : {}) : { key: `task=${task}` }
  const what =
    task !== undefined
      ? `tasks named ${task}`
      : name === 'resume'
        ? `all that is paused of ${spool}`
        : `all tasks of ${spool}`
  return { action: name, rows: [], args, text: `${name} ${what}` }
}
