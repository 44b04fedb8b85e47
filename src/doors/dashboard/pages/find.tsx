import { BURY_REASONS } from '../../../base/task/outcome.js'
import { TASK_STATES } from '../../../engines/spool/admin/task-view.js'
import type { PageContext } from '../context.js'
import { filterIn, textsOf } from '../filter.js'
import { PAGE_SIZE } from '../models/listings.js'
import { taskRow } from '../models/task-row.js'
import { MOST_LOOKED_AT } from '../readable-spools.js'
import { spoolHref } from '../views/links.js'
import { useLook } from '../views/parts.js'
import { countOf, countText } from '../views/text.js'
import { framed, spoolScene } from './framed.js'
import { BulkLinks, DUE, FAILED, Tasks, WHY } from './listing.js'

type Params = Readonly<Record<string, string>>

/** The page of the tasks that a filter selects. */
export async function findPage(context: PageContext, params: Params) {
  const at = await spoolScene(context, params)
  const { snapshot, place } = at
  const { viewer, query } = context
  const filter = filterIn(Object.fromEntries(query))
  const texts = textsOf(filter)
  const isAsked = Object.keys(texts).length > 0
  const { tasks, isWhole } = isAsked ? await place.find(filter, PAGE_SIZE) : { tasks: [], isWhole: true }
  return framed(
    context,
    at,
    {
      page: 'find',
      title: 'Find',
      source: place.isOnRedis
        ? 'Reads the jobs from Redis, in the order in which they start, dead letters last, until a page is full.'
        : 'Looks at the names of the spool and of its dead letters, in the order of the directory, and opens those that fit, until a page is full.',
    },
    <>
      <section class="card" aria-label="Filter">
        <FindForm action={spoolHref(place.id, 'find')} query={query} />
      </section>
      {isAsked && (
        <>
          <p role="status">{foundText(tasks.length, isWhole)}</p>
          <Tasks
            name="Tasks that fit"
            place={place}
            next={spoolHref(place.id, 'find', Object.fromEntries(query))}
            rows={tasks.map(task => taskRow(task, viewer.mayReadPayload, snapshot.atMs))}
            empty={isWhole ? 'No task fits.' : 'None of them fits.'}
            columns={[DUE, FAILED, WHY]}
          />
          {tasks.length > 0 && <BulkLinks id={place.id} filter={texts} />}
        </>
      )}
    </>,
  )
}

/** Returns how many tasks a search has found, and whether it has stopped because its page is full, or because it gave up. */
function foundText(count: number, isWhole: boolean): string {
  if (count === PAGE_SIZE && !isWhole) return `The first ${PAGE_SIZE} tasks that fit; there may be more.`
  const found = countOf(count, 'task fits', 'tasks fit')
  return isWhole
    ? found
    : `${found} among the ${countText(MOST_LOOKED_AT)} that were looked at; there may be more.`
}

/** The text fields of the form, one per filter. `isPayload`: the filter looks at values or errors. */
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
  /** The path to which the form leads. */
  readonly action: string
  readonly query: URLSearchParams
}

/** The form with the filters of `spoold ls`. */
function FindForm({ action, query }: FindFormProps) {
  const { viewer } = useLook()
  const fields = FIELDS.filter(({ isPayload }) => viewer.mayReadPayload || !isPayload)
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
