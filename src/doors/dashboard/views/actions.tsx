import type { Child } from 'hono/jsx'
import { ACTIONS, type ActionName } from '../../../admin/operate/actions.js'
import { ownStateOf, type TaskState } from '../../../engines/spool/admin/task-view.js'
import { countOf } from './text.js'

/** Who may do what, and what forms have to carry. */
export interface Actor {
  readonly csrf: string
  readonly mayReadPayload: boolean
  may(action: ActionName): boolean
}

interface Wording {
  /** What the button says. */
  readonly label: string
  /** What happens then: a sentence. A button that has one is pressed twice. */
  readonly warning?: string
}

export const WORDING: Readonly<Record<ActionName, Wording>> = {
  requeue: { label: 'Try again' },
  kick: { label: 'Run now' },
  hold: { label: 'Hold' },
  release: { label: 'Release' },
  bury: { label: 'Bury', warning: 'It does not run, and becomes a dead letter, which can be tried again.' },
  cancel: {
    label: 'Cancel',
    warning:
      'Its handler is told to stop; after five seconds its process is killed. It becomes a dead letter.',
  },
  remove: { label: 'Remove', warning: 'It is deleted for good: nothing brings it back.' },
  edit: { label: 'Edit' },
  pause: { label: 'Pause' },
  resume: { label: 'Resume' },
  'run-schedule': { label: 'Run now' },
  'pause-schedule': { label: 'Pause' },
  'resume-schedule': { label: 'Resume' },
  'remove-schedule': { label: 'Remove', warning: 'Code that runs has added it, and may add it again.' },
  scale: { label: 'Set' },
  enqueue: { label: 'Enqueue' },
}

/** The actions that a task can have in this state, and that this visitor may do. */
function taskActions(actor: Actor, state: TaskState): ActionName[] {
  return actionNames().filter(name => canHave(name, state) && actor.may(name))
}

/** Is this something that is done to tasks in this state? */
export function canHave(name: ActionName, state: TaskState): boolean {
  const action = ACTIONS[name]
  return action.on === 'task' && (action.states as readonly TaskState[]).includes(ownStateOf(state))
}

/** Those that can be done to many tasks at once. */
export function bulkActions(actor: Actor): ActionName[] {
  return actionNames().filter(name => {
    const action = ACTIONS[name]
    return action.on === 'task' && action.inBulk && actor.may(name)
  })
}

function actionNames(): ActionName[] {
  return Object.keys(ACTIONS) as ActionName[]
}

interface FormProps {
  readonly name: ActionName
  readonly actor: Actor
  /** The path of the task, or of the spool. */
  readonly at: string
  /** Where to go afterwards. */
  readonly next: string
  /** Hidden fields. */
  readonly fields?: Readonly<Record<string, string>>
  /** Fields to be filled in. */
  readonly children?: Child
  readonly label?: string
}

/** A form that does one thing. One with a warning shows its button with that, when it is asked to: without a script. */
export function ActionForm({ name, label = WORDING[name].label, ...props }: FormProps) {
  const { warning } = WORDING[name]
  if (warning === undefined) return <PlainForm name={name} label={label} {...props} />
  return (
    <details class="confirm">
      <summary class="button danger">{`${label}…`}</summary>
      <p>{warning}</p>
      <PlainForm name={name} label={`${label} it`} isDangerous {...props} />
    </details>
  )
}

interface PlainFormProps extends FormProps {
  readonly label: string
  readonly isDangerous?: boolean
}

function PlainForm({ name, actor, at, next, fields = {}, children, label, isDangerous }: PlainFormProps) {
  return (
    <form method="post" action={`${at}/${name}`} class={children === undefined ? '' : 'filter'}>
      <Hidden fields={{ csrf: actor.csrf, next, ...fields }} />
      {children}
      <button type="submit" class={isDangerous ? 'danger' : ''}>
        {label}
      </button>
    </form>
  )
}

export function Hidden({ fields }: { fields: Readonly<Record<string, string>> }) {
  return (
    <>
      {Object.entries(fields).map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
    </>
  )
}

interface TaskActionsProps {
  readonly actor: Actor
  readonly at: string
  readonly state: TaskState
  readonly next: string
}

/** What can be done to one task. To edit it, one has to see it: that is on its own page. */
export function TaskActions({ actor, at, state, next }: TaskActionsProps) {
  const possible = taskActions(actor, state).filter(name => name !== 'edit')
  return (
    <div class="actions">
      {possible.map(name => (
        <ActionForm name={name} actor={actor} at={at} next={next} />
      ))}
    </div>
  )
}

interface BulkProps {
  readonly name: ActionName
  readonly actor: Actor
  /** The path of the spool. */
  readonly at: string
  readonly next: string
  /** What says which tasks are meant. */
  readonly fields: Readonly<Record<string, string>>
  readonly count: number
}

/** To do something to all tasks of a preview: if there are more by then, nothing is done. */
export function BulkForm({ name, actor, at, next, fields, count }: BulkProps) {
  const action = ACTIONS[name]
  const isFinal = action.on === 'task' && action.isFinal
  return (
    <form method="post" action={`${at}/bulk/${name}`} class="filter">
      <Hidden fields={{ csrf: actor.csrf, next, ...fields, count: String(count) }} />
      {isFinal && (
        <label>
          {`They are deleted for good. Type ${count} to confirm`}
          <br />
          <input name="typed" inputmode="numeric" autocomplete="off" pattern={String(count)} required />
        </label>
      )}
      <button type="submit" class={isFinal ? 'danger' : ''}>
        {`${WORDING[name].label}: ${countOf(count, 'task')}`}
      </button>
    </form>
  )
}
