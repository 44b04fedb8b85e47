import type { Context } from 'hono'
import { printable } from '../../../base/printable.js'
import { PageError } from '../page-error.js'
import { type Env, type World, whoseOf } from '../world.js'

/** What a form has sent, by name. Of a repeated name the last one counts; of `ref` all do, with spaces between them. */
export type Form = Readonly<Record<string, string | undefined>>

/** What check boxes repeat: tasks, as URLs have them. */
const REF = 'ref'

const MEDIA_TYPE = 'application/x-www-form-urlencoded'

/**
 * What a form of ours has sent.
 *
 * @throws PageError for one of another site: its page cannot read ours, so it does not know `csrf`, and cannot hide where it
 *   comes from
 */
export async function formOf(c: Context<Env>, { sessions }: Pick<World, 'sessions'>): Promise<Form> {
  const form = await formFromHere(c)
  const { id, visitor } = c.var
  if (!sessions.isCsrf(form.csrf ?? '', id, whoseOf(visitor)))
    throw new PageError(403, 'this form is too old, or not of this dashboard: load its page again')
  return form
}

/** As `formOf`, of somebody who is not known yet. */
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

/** Most often a proxy has put its own name, or one without a port, in the place of the browser's. */
function whence(origin: string, host: string): string {
  const named = [origin, host].map(each => printable(each.slice(0, 100)) || 'nothing')
  return `its page is of ${named[0]} (Origin), and it was sent to ${named[1]} (Host); a proxy has to pass on the Host that the browser sends, with its port`
}

/** Where a form says to go next: no page of another site, for `//host` and `/\host` are such. */
export function pathIn({ next = '/' }: Form): string {
  return /^\/(?![/\\])[\x21-\x7e]*$/.test(next) ? next : '/'
}
