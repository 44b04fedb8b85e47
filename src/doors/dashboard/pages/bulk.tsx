import type { Child } from 'hono/jsx'
import { ACTIONS, type ActionName, findAction, type TaskAction } from '../../../admin/operate/actions.js'
import { printable } from '../../../base/printable.js'
import { displayName, type Ref } from '../../../base/task/ref.js'
import { pathIn } from '../access/form.js'
import type { PageContext } from '../context.js'
import { filterIn, textsOf } from '../filter.js'
import type { Meant } from '../meant.js'
import { PageError } from '../page-error.js'
import { Hidden, WORDING } from '../views/actions.js'
import { spoolHref } from '../views/links.js'
import { countOf } from '../views/text.js'
import { framed, spoolScene } from './framed.js'

type Params = Readonly<Record<string, string>>

/** The preview of an action on the tasks that a filter selects: how many of them can have it, and the form that does it. */
export async function bulkPage(context: PageContext, params: Params) {
  const action = askedFor(context, params)
  const query = Object.fromEntries(context.query)
  const fields = textsOf(filterIn(query))
  const place = context.spools.get(params.spool ?? '')
  const meant = await place.meant(action, fields)
  const words = Object.entries(fields).map(([key, value]) => `${key} ${value}`)
  return preview(context, params, {
    meant,
    fields,
    back: spoolHref(place.id, 'find', query),
    source: `Counted now, among tasks that are ${action.states.join(', ')}; if there are more by the time you confirm, nothing is done.`,
    which: <p>{words.length === 0 ? 'Every task of these states.' : `Those with ${words.join(', ')}.`}</p>,
  })
}

/** The preview of an action on the tasks that were selected in a listing. */
export async function chosenPage(context: PageContext, params: Params) {
  const action = askedFor(context, params)
  const { ref: chosen = '' } = context.form // without one, a filter would mean all
  const place = context.spools.get(params.spool ?? '')
  const meant = await place.meant(action, { ref: chosen })
  const names = meant.refs.map(ref => ({ ref, href: place.urlOf(ref) }))
  const back = pathIn(context.form)
  return preview({ ...context, path: back, query: new URLSearchParams() }, params, {
    meant,
    fields: { ref: meant.refs.map(ref => place.textOf(ref)).join(' ') },
    back,
    source: `Of the tasks that were selected, those that are ${action.states.join(', ')} now; by the time you confirm, others are left alone.`,
    which: names.length === 0 ? <p>None was selected that this can be done to.</p> : <Names names={names} />,
  })
}

/** Returns the action that a preview is for. @throws PageError if there is none, or the viewer may not do it */
function askedFor({ viewer }: PageContext, { action: name = '' }: Params): TaskAction {
  const action = findAction(name)
  if (action?.on !== 'task' || !action.inBulk) throw new PageError(404, 'there is no such action')
  if (!viewer.may(name as ActionName)) throw new PageError(403, `you may not ${name}`)
  return action
}

interface Preview {
  readonly meant: Meant
  /** The fields with which the form means these tasks. */
  readonly fields: Readonly<Record<string, string>>
  readonly back: string
  readonly source: string
  /** Which tasks these are, for people. */
  readonly which: Child
}

async function preview(
  context: PageContext,
  params: Params,
  { meant: { refs, isWhole }, fields, back, source, which }: Preview,
) {
  const at = await spoolScene(context, params)
  const name = params.action as ActionName
  return framed(
    context,
    at,
    { page: 'find', title: `${WORDING[name].label}: ${countOf(refs.length, 'task')}`, source },
    <section class="card" aria-label="Confirmation">
      {which}
      {!isWhole && <p class="bad">These are too many at once: narrow the filter, or use the command line.</p>}
      {isWhole && refs.length > 0 && (
        <BulkForm
          name={name}
          at={spoolHref(at.place.id, 'spool')}
          next={back}
          fields={fields}
          count={refs.length}
        />
      )}
      <p>
        <a href={back}>Back, and do nothing</a>
      </p>
    </section>,
  )
}

interface BulkProps {
  readonly name: ActionName
  /** The path of the spool. */
  readonly at: string
  readonly next: string
  /** The fields with which the form means its tasks. */
  readonly fields: Readonly<Record<string, string>>
  readonly count: number
}

/** The form that does something to all tasks of a preview. Nothing is done if there are more by then. */
function BulkForm({ name, at, next, fields, count }: BulkProps) {
  const action = ACTIONS[name]
  const isFinal = action.on === 'task' && action.isFinal
  return (
    <form method="post" action={`${at}/bulk/${name}`} class="filter">
      <Hidden fields={{ next, ...fields, count: String(count) }} />
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

/** Tasks by their names, each a link to its page. */
function Names({ names }: { names: ReadonlyArray<{ readonly ref: Ref; readonly href: string }> }) {
  return (
    <ul>
      {names.map(({ ref, href }) => (
        <li>
          <a class="path" href={href}>
            {printable(displayName(ref))}
          </a>
        </li>
      ))}
    </ul>
  )
}
