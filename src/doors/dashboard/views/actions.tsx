import type { Child } from 'hono/jsx'
import { ACTIONS, type ActionName } from '../../../admin/operate/actions.js'
import { ownStateOf, type TaskState } from '../../../engines/spool/admin/task-view.js'
import { useLook } from './parts.js'

interface Wording {
  /** What the button says. */
  readonly label: string
  /** A sentence that says what happens then. With a warning, a button has to be pressed twice. */
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

const ACTION_NAMES = Object.keys(ACTIONS) as ActionName[]

/** True if the action can be done to tasks in this state. */
export function canHave(name: ActionName, state: TaskState): boolean {
  const action = ACTIONS[name]
  return action.on === 'task' && (action.states as readonly TaskState[]).includes(ownStateOf(state))
}

/** Returns the actions that the viewer may do to many tasks at once. */
export function useBulkActions(): ActionName[] {
  const { viewer } = useLook()
  return ACTION_NAMES.filter(name => {
    const action = ACTIONS[name]
    return action.on === 'task' && action.inBulk && viewer.may(name)
  })
}

interface FormProps {
  readonly name: ActionName
  /** The path of the task, or of the spool. */
  readonly at: string
  /** The path of the page that follows. */
  readonly next: string
  /** Hidden fields. */
  readonly fields?: Readonly<Record<string, string>>
  /** Fields to be filled in. */
  readonly children?: Child
  readonly label?: string
}

/**
 * The form of one action, if the viewer may do it. If the action has a warning, a first click unfolds the warning and the button
 * that acts. This needs no script.
 */
export function ActionForm({
  name,
  at,
  next,
  fields = {},
  children,
  label = WORDING[name].label,
}: FormProps) {
  if (!useLook().viewer.may(name)) return null
  const { warning } = WORDING[name]
  const form = (
    <form method="post" action={`${at}/${name}`} class={children === undefined ? '' : 'filter'}>
      <Hidden fields={{ next, ...fields }} />
      {children}
      <button type="submit" class={warning === undefined ? '' : 'danger'}>
        {warning === undefined ? label : `${label} it`}
      </button>
    </form>
  )
  if (warning === undefined) return form
  return (
    <details class="confirm">
      <summary class="button danger">{`${label}…`}</summary>
      <p>{warning}</p>
      {form}
    </details>
  )
}

/** The hidden fields of a form. `csrf` shows that the form is ours. */
export function Hidden({ fields }: { fields: Readonly<Record<string, string>> }) {
  return (
    <>
      {Object.entries({ csrf: useLook().viewer.csrf, ...fields }).map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
    </>
  )
}

interface TaskActionsProps {
  readonly at: string
  readonly state: TaskState
  readonly next: string
}

/** The forms of what can be done to one task. `edit` is only on the task's own page, because its form contains the keys. */
export function TaskActions({ at, state, next }: TaskActionsProps) {
  const possible = ACTION_NAMES.filter(name => name !== 'edit' && canHave(name, state))
  return (
    <div class="actions">
      {possible.map(name => (
        <ActionForm name={name} at={at} next={next} />
      ))}
    </div>
  )
}
