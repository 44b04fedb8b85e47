import { type Context, Hono } from 'hono'
import { actOnTask, actOnTasks, type Tally } from '../../admin/operate/act.js'
import {
  ACTIONS,
  type ActionName,
  findAction,
  type SpoolAction,
  type TaskAction,
} from '../../admin/operate/actions.js'
import { given } from '../../admin/operate/args.js'
import { counted } from '../../base/counted.js'
import { messageOf } from '../../base/errors.js'
import { displayName, toByteString } from '../../base/task/ref.js'
import type { AuditEntry } from '../../engines/spool/admin/audit.js'
import type { Changed } from '../../engines/spool/admin/change.js'
import type { TaskStore } from '../../engines/task-store.js'
import type { Hide } from '../../formats/protocol/hide.js'
import { type Form, formOf, pathIn } from './access/form.js'
import { mayDo } from './access/rights.js'
import { meantBy } from './meant.js'
import { PageError } from './page-error.js'
import { refIn, type SpoolPlace } from './spools.js'
import type { Env, World } from './world.js'

/** An act that a request asks for: the action, the spool, and the form with the arguments. */
interface Act {
  readonly name: ActionName
  readonly place: SpoolPlace
  readonly form: Form
}

/** Returns the routes that act on tasks and spools. None is a GET, and each act is written into the audit before it begins. */
export function acts(world: World): Hono<Env> {
  const app = new Hono<Env>()
  app.post('/spools/:spool/tasks/:ref/:action', async c => {
    const act = await allowed(world, c)
    return answered(world, c, act, await onTask(c, act, taskAction(act)))
  })
  app.post('/spools/:spool/bulk/:action', async c => {
    const act = await allowed(world, c)
    return answered(world, c, act, await onTasks(c, world, act, taskAction(act)))
  })
  app.post('/spools/:spool/:action', async c => {
    const act = await allowed(world, c)
    return answered(world, c, act, await onSpool(c, act, spoolAction(act)))
  })
  return app
}

/** Returns the act that a request asks for. @throws PageError unless the visitor may do it, and sent a form of this dashboard */
async function allowed(world: World, c: Context<Env>): Promise<Act> {
  const form = await formOf(c, world)
  const { spool = '', action: name = '' } = c.req.param() as Readonly<Record<string, string>>
  const place = world.spools.find(spool)
  if (place === undefined) throw new PageError(404, 'there is no such spool here')
  if (findAction(name) === undefined) throw new PageError(404, 'there is no such action')
  const act = { name: name as ActionName, place, form }
  if (!mayDo(c.var.visitor, act.name, world.allowsNewWork)) throw new PageError(403, `you may not ${name}`)
  refuseGuesses(world, c, act)
  return act
}

/**
 * Refuses arguments that would reveal values of tasks: whoever pauses the tasks with a guessed value sees whether there are any.
 *
 * @throws PageError
 */
function refuseGuesses({ hide }: World, c: Context<Env>, { name, form }: Act): void {
  const action: TaskAction | SpoolAction = ACTIONS[name]
  const guesses = action.on === 'spool' ? action.payloadArgs.flatMap(each => given(form, each) ?? []) : []
  if (guesses.length > 0 && !c.var.visitor.mayReadPayload)
    throw new PageError(403, 'you may not read the payload of tasks, so you cannot act on tasks by a value')
  const hidden = guesses.find(text => hidesSome(hide, text))?.split('=', 1)
  if (hidden !== undefined)
    throw new PageError(403, `the value of ${hidden} is hidden, so tasks cannot be paused by it here`)
}

/** True if the key's value is hidden, or a part of it: whoever knows the rest of a JSON value could guess the hidden part. */
function hidesSome(hide: Hide, text: string): boolean {
  const [key = '', ...rest] = text.split('=')
  const value = toByteString(rest.join('='))
  return hide.has(key) || hide.pair([toByteString(key), value])[1] !== value
}

function taskAction({ name }: Act): TaskAction {
  const action: TaskAction | SpoolAction = ACTIONS[name]
  if (action.on !== 'task') throw new PageError(404, `${name} is not an action on tasks`)
  return action
}

function spoolAction({ name }: Act): SpoolAction {
  const action: TaskAction | SpoolAction = ACTIONS[name]
  if (action.on !== 'spool') throw new PageError(404, `${name} is not an action on a spool`)
  return action
}

/** The result of an act, for people. */
interface Outcome {
  readonly isGood: boolean
  readonly text: string
}

async function onTask(c: Context<Env>, { name, place, form }: Act, action: TaskAction): Promise<Outcome> {
  const ref = refIn(place, c.req.param('ref') ?? '')
  const store = await place.open({ asksDaemons: true })
  const task = ref === undefined ? undefined : await store.view(ref)
  if (task === undefined) throw new PageError(404, 'this task is gone: it has run, or was removed')
  return audited(c, place, { action: name, task: displayName(task.ref) }, async () => {
    const changed = await actOnTask(store, task, action, form)
    return { isGood: changed.kind === 'done', text: outcomeText(changed, action) }
  })
}

function outcomeText(changed: Changed, { done }: TaskAction): string {
  switch (changed.kind) {
    case 'done':
      return done
    case 'gone':
      return 'it is gone: it has run, or was removed'
    case 'running':
      return 'it is running, and was left alone'
    case 'refused':
      return changed.detail
  }
}

/** Acts on the tasks that the form means. Does nothing if they are more than the preview showed, which the visitor confirmed. */
async function onTasks(
  c: Context<Env>,
  world: World,
  { name, place, form }: Act,
  action: TaskAction,
): Promise<Outcome> {
  if (!action.inBulk) throw new PageError(404, `${name} is done to one task at a time`)
  const [expected, typed] = [form.count ?? '', form.typed ?? '']
  if (!/^[0-9]{1,9}$/.test(expected)) throw new PageError(400, 'expected the count of the preview')
  if (action.isFinal && typed.trim() !== expected)
    return {
      isGood: false,
      text: `nothing was done: to ${name} ${counted(Number(expected), 'task')}, type ${expected}`,
    }
  const {
    refs,
    isWhole,
    about: which,
  } = await meantBy(form, action, place, { mayReadPayload: c.var.visitor.mayReadPayload, hide: world.hide })
  if (!isWhole) return { isGood: false, text: 'nothing was done: these are too many at once' }
  if (refs.length > Number(expected))
    return { isGood: false, text: `nothing was done: there are ${refs.length} now, and not ${expected}` }
  const about = { action: name, ...which, count: refs.length }
  return audited(c, place, about, async () => {
    const tally = await actOnTasks(await place.open(), action, refs)
    return { isGood: tally.done === refs.length, text: tallyText(tally, action) }
  })
}

function tallyText({ done, gone, running, refused, detail }: Tally, action: TaskAction): string {
  const parts = [`${done} ${action.done}`]
  if (gone > 0) parts.push(`${gone} gone`)
  if (running > 0) parts.push(`${running} running`)
  if (refused > 0) parts.push(`${refused} refused: ${detail}`)
  return parts.join(', ')
}

function onSpool(c: Context<Env>, { name, place, form }: Act, action: SpoolAction): Promise<Outcome> {
  return audited(c, place, { action: name, ...argsFor(action, form) }, async () => {
    try {
      const { mayReadPayload } = c.var.visitor
      return { isGood: true, text: await action.run(place.directory, form, { mayReadPayload }) }
    } catch (error) {
      return { isGood: false, text: messageOf(error) }
    }
  })
}

/** Returns the arguments of an act for the audit: none for a new task, because they contain its values. */
function argsFor({ isNewWork, args }: SpoolAction, form: Form): Pick<AuditEntry, 'filter'> {
  const known = isNewWork ? [] : args.filter(name => given(form, name) !== undefined)
  return known.length === 0
    ? {}
    : { filter: JSON.stringify(Object.fromEntries(known.map(name => [name, form[name]]))) }
}

/**
 * Writes an act into the audit, does it, and writes its result into the audit.
 *
 * @throws PageError if the first line cannot be written: nothing is done then
 */
async function audited(
  c: Context<Env>,
  place: SpoolPlace,
  about: Omit<AuditEntry, 'at' | 'who' | 'role'>,
  act: () => Promise<Outcome>,
): Promise<Outcome> {
  const { name: who, role } = c.var.visitor
  let store: TaskStore
  try {
    store = await place.open()
    await store.audit({ at: Date.now(), who, role, ...about })
  } catch (error) {
    throw new PageError(
      503,
      `nothing was done, because it cannot be written into the audit: ${messageOf(error)}`,
    )
  }
  const outcome = await act()
  try {
    await store.audit({ at: Date.now(), who, role, ...about, result: outcome.text })
  } catch {} // the act is done, and the first line says so
  return outcome
}

/** Redirects to the next page, which shows the result. */
function answered({ sessions }: World, c: Context<Env>, { form }: Act, outcome: Outcome): Response {
  sessions.tell(c.var.id, outcome)
  return c.redirect(pathIn(form), 303)
}
