import type { Context } from 'hono'
import { printable } from '../../../base/printable.js'
import { PageError } from '../page-error.js'
import { type Env, type World, whoseOf } from '../world.js'

/** The fields of a form. If a name is repeated, the last value counts; of `ref`, all values count, with spaces between them. */
export type Form = Readonly<Record<string, string | undefined>>

/** The name that check boxes repeat. Each value is the text for a task in URLs. */
const REF = 'ref'

const MEDIA_TYPE = 'application/x-www-form-urlencoded'

/**
 * Returns the fields of a form of this dashboard.
 *
 * @throws PageError for a form of another site: that site cannot read our pages, so it does not know `csrf`, and it cannot forge
 *   `Origin`
 */
export async function formOf(c: Context<Env>, { sessions }: Pick<World, 'sessions'>): Promise<Form> {
  const form = await formFromHere(c)
  const { id, visitor } = c.var
  if (!sessions.isCsrf(form.csrf ?? '', id, whoseOf(visitor)))
    throw new PageError(403, 'this form is too old, or not of this dashboard: load its page again')
  return form
}

/** Returns the fields of a form of ours without a check of `csrf`, for a visitor who is not known yet. @throws PageError */
export async function formFromHere(c: Context<Env>): Promise<Form> {
  const { origin = '', host = '', 'content-type': type = '' } = c.env.incoming.headers
  if (host === '' || !/^https?:\/\//.test(origin) || origin.replace(/^https?:\/\//, '') !== host)
    throw new PageError(403, `this form comes from another site: ${whence(origin, host)}`)
  if (type.split(';')[0]?.trim().toLowerCase() !== MEDIA_TYPE)
    throw new PageError(400, `expected ${MEDIA_TYPE}`)
  const form: Record<string, string> = Object.create(null)
  for (const [name, value] of new URLSearchParams(await c.req.text()))
    form[name] = name === REF && form[REF] !== undefined ? `${form[REF]} ${value}` : value
  return form
}

/**
 * Returns where a form came from, for people. Most often, a proxy has replaced the browser's Host with its own name, or with one
 * without the port.
 */
function whence(origin: string, host: string): string {
  const named = [origin, host].map(each => printable(each.slice(0, 100)) || 'nothing')
  return `its page is of ${named[0]} (Origin), and it was sent to ${named[1]} (Host); a proxy has to pass on the Host that the browser sends, with its port`
}

/** Returns the path of the next page that a form names. Paths like `//host` and `/\host` are refused: they mean another site. */
export function pathIn({ next = '/' }: Form): string {
  return /^\/(?![/\\])[\x21-\x7e]*$/.test(next) ? next : '/'
}
