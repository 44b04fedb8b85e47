import type { ActionName } from '../../../admin/operate/actions.js'
import { BURY_REASONS } from '../../../base/task/outcome.js'
import { TASK_STATES, type TaskState } from '../../../engines/spool/admin/task-view.js'
import { canHave, WORDING } from './actions.js'

/** What can be typed into the form, and what it means. `isPayload`: it looks at values. */
const FIELDS = [
  { name: 'key', label: 'Key and value', hint: 'to=joe', isPayload: true },
  { name: 'match', label: 'Key and pattern', hint: 'to=*@example.org', isPayload: true },
  { name: 'grep', label: 'Any value or error has', hint: 'timed out', isPayload: true },
  { name: 'task', label: 'Named task', hint: 'send_mail', isPayload: false },
  { name: 'name', label: 'File name', hint: 'uwsgi_*', isPayload: false },
  { name: 'priority', label: 'Priority', hint: '5', isPayload: false },
  { name: 'olderThan', label: 'Older than', hint: '2h, yesterday', isPayload: false },
  { name: 'newerThan', label: 'Newer than', hint: '2h, today', isPayload: false },
] as const

interface FindFormProps {
  /** Where it leads. */
  readonly action: string
  readonly query: URLSearchParams
  readonly mayReadPayload: boolean
}

/** The filters of `spoold ls`. */
export function FindForm({ action, query, mayReadPayload }: FindFormProps) {
  const fields = FIELDS.filter(({ isPayload }) => mayReadPayload || !isPayload)
  return (
    <form method="get" action={action} class="filter">
      <Choice name="state" label="State" words={TASK_STATES} chosen={query.get('state')} />
      <Choice name="reason" label="Dead because" words={BURY_REASONS} chosen={query.get('reason')} />
      {fields.map(({ name, label, hint }) => (
        <label>
          {label}
          <br />
          <input name={name} value={query.get(name) ?? ''} placeholder={hint} autocomplete="off" />
        </label>
      ))}
      <button type="submit">Find</button>
    </form>
  )
}

interface ChoiceProps {
  readonly name: string
  readonly label: string
  readonly words: readonly string[]
  readonly chosen: string | null
}

function Choice({ name, label, words, chosen }: ChoiceProps) {
  return (
    <label>
      {label}
      <br />
      <select name={name}>
        <option value="">any</option>
        {words.map(word => (
          <option value={word} selected={word === chosen}>
            {word}
          </option>
        ))}
      </select>
    </label>
  )
}

interface BulkLinksProps {
  /** The path of the spool. */
  readonly at: string
  readonly actions: readonly ActionName[]
  /** What selects them. */
  readonly filter: Readonly<Record<string, string>>
}

/** To the preview of doing something to all of them. */
export function BulkLinks({ at, actions, filter }: BulkLinksProps) {
  const { state = '' } = filter
  const query = new URLSearchParams(filter).toString()
  const possible = actions.filter(name => state === '' || canHave(name, state as TaskState))
  if (possible.length === 0) return null
  return (
    <section class="card" aria-labelledby="all">
      <h2 id="all">Do something to all of them</h2>
      <p class="quiet">A preview says how many they are before anything is done.</p>
      <div class="actions">
        {possible.map(name => (
          <a class="button" href={`${at}/bulk/${name}?${query}`}>
            {`${WORDING[name].label}…`}
          </a>
        ))}
      </div>
    </section>
  )
}
