import { setTimeout as sleep } from 'node:timers/promises'
import { type Context, Hono } from 'hono'
import { getPath } from 'hono/utils/url'
import { messageOf, SpooldError } from '../../base/errors.js'
import { printableLine } from '../../base/printable.js'
import { seenSnapshot } from '../../runtime/stats/seen-snapshot.js'
import { giveId, idIn } from './access/cookie.js'
import { type Form, formFromHere, formOf } from './access/form.js'
import { hasRight, mayDo } from './access/rights.js'
import { visitorOf } from './access/visitor.js'
import { acts } from './acts.js'
import { ASSET_NAMES, assetOf } from './assets.js'
import type { Page, Raw } from './context.js'
import { PageError } from './page-error.js'
import { FORM_PAGES, PAGES } from './pages/index.js'
import { loginPage, messagePage } from './pages/plain.js'
import { ReadableSpools } from './readable-spools.js'
import { type Env, type World, whoseOf } from './world.js'

export type DashboardApp = Hono<Env>

/** The headers of every answer. A page loads and calls only this server, has no inline script or style, and cannot be framed. */
export const SECURITY_HEADERS = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  // with no-referrer, browsers would send forms without their origin
  'Referrer-Policy': 'same-origin',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
} as const

export function dashboardApp(world: World): DashboardApp {
  const app = new Hono<Env>({ getPath: pathWithin })
  app.use(async (c, next) => {
    await next()
    await finish(c)
    secure(c.res.headers)
  })
  for (const name of ASSET_NAMES) app.get(`/assets/${name}`, c => lasting(c, assetOf(name)))
  app.get('/login', c => (world.tokens === null ? c.redirect('/', 303) : c.html(loginPage())))
  app.post('/login', c => logIn(c, world))
  app.use((c, next) => identify(c, world, next))
  app.post('/logout', c => logOut(c, world))
  for (const page of PAGES) app.get(page.path, c => answer(c, world, page))
  for (const page of FORM_PAGES)
    app.post(page.path, async c => answer(c, world, page, await formOf(c, world)))
  app.route('/', acts(world))
  app.notFound(c => said(c, 404, 'there is no such page'))
  app.onError((error, c) => said(c, statusOf(error), messageOf(error)))
  return app
}

/** Returns the path of a request without the prefix, which a proxy may have removed already. */
function pathWithin(request: Request, { env }: { env?: Env['Bindings'] } = {}): string {
  const path = getPath(request)
  const prefix = env?.at.prefix ?? ''
  return prefix !== '' && `${path}/`.startsWith(`${prefix}/`) ? path.slice(prefix.length) || '/' : path
}

/** Matches an attribute with a path of this server. Texts cannot match, because quotation marks in them are escaped. */
const OWN_PATH = /(\s(?:href|src|action|formaction|hx-get|hx-post)=")\/(?!\/)/g
/** Matches what stands between tags: texts and values of attributes have references for `<` and `>`. */
const TEXT = />[^<]+/g

/**
 * Finishes each answer. It adds the prefix to the paths in its markup and to that of a redirect, because pages know of no prefix; and
 * it escapes what a browser would obey in texts of strangers.
 */
async function finish(c: Context<Env>): Promise<void> {
  const { prefix } = c.env.at
  const to = c.res.headers.get('Location')
  if (to?.startsWith('/')) c.res.headers.set('Location', prefix + to)
  if (c.res.headers.get('Content-Type')?.startsWith('text/html') !== true) return
  const page = (await c.res.text()).replaceAll(TEXT, seen)
  c.res = new Response(prefix === '' ? page : page.replaceAll(OWN_PATH, `$1${prefix}/`), c.res)
}

/** Escapes what turns the direction of text. Values of forms stay as they are, because they come back. */
function seen(text: string): string {
  return text.split(/\r?\n/).map(printableLine).join('\n')
}

function statusOf(error: Error): PageError['status'] {
  if (error instanceof PageError) return error.status
  return error instanceof SpooldError && error.code === 'USAGE' ? 400 : 503
}

/** Sets the security headers. A `Cache-Control` that is set already stays, because browsers may keep files that never change. */
function secure(headers: Headers): void {
  for (const [name, value] of Object.entries(SECURITY_HEADERS))
    if (name !== 'Cache-Control' || !headers.has(name)) headers.set(name, value)
}

/** Finds out who the visitor is, before anything is shown or done. Answers instead if the visitor is not known. */
async function identify(
  c: Context<Env>,
  { tokens, sessions }: World,
  next: () => Promise<void>,
): Promise<Response | undefined> {
  const { incoming, at } = c.env
  const known = idIn(c.env)
  const visitor = await visitorOf(at, incoming.headers, known, { tokens, sessions })
  if (visitor === 'forbidden') return said(c, 403, 'the proxy does not say who you are')
  if (visitor === 'unknown')
    return c.req.method === 'GET' ? c.redirect('/login', 303) : said(c, 401, 'log in first')
  c.set('visitor', visitor)
  c.set('id', known ?? giveId(c, sessions.newId()))
  await next()
  return undefined
}

/** A wrong token is answered after this time. 256 bits cannot be guessed; the delay only slows attempts down. */
const WRONG_MS = 500

/** Begins a session if the file of tokens has the token. */
async function logIn(c: Context<Env>, { tokens, sessions }: World): Promise<Response> {
  const { token = '' } = await formFromHere(c)
  const hash = await tokens?.hashOf(token.trim())
  if (hash === undefined) {
    await sleep(WRONG_MS)
    return c.html(loginPage('this token is not known'), 403)
  }
  giveId(c, sessions.begin(hash))
  return c.redirect('/', 303)
}

async function logOut(c: Context<Env>, world: World): Promise<Response> {
  if (!c.var.visitor.hasSession) throw new PageError(400, 'you are not logged in')
  await formOf(c, world)
  world.sessions.end(c.var.id)
  return c.redirect('/login', 303)
}

async function answer(c: Context<Env>, world: World, page: Page, form: Form = {}): Promise<Response> {
  const { visitor, id } = c.var
  if (!hasRight(visitor, page.right)) throw new PageError(403, 'you may not see this page')
  const { sessions, allowsNewWork, daemon, spools, hide } = world
  const sight = { mayReadPayload: visitor.mayReadPayload, hide }
  const made = await page.render(
    {
      viewer: {
        ...visitor,
        csrf: sessions.csrfOf(id, whoseOf(visitor)),
        may: name => mayDo(visitor, name, allowsNewWork),
      },
      daemon: {
        history: daemon.history,
        ask: async (verb, args) =>
          verb === 'config' && !hasRight(visitor, { role: 'admin' }) ? null : daemon.ask(verb, args),
        snapshot: async () => seenSnapshot(await daemon.snapshot(), sight),
      },
      spools: new ReadableSpools(spools, sight),
      path: c.req.path,
      query: new URL(c.req.url).searchParams,
      form,
      // a live refresh shows only the figures of its answer, so it must leave the notice to the page that follows a form
      notice: c.req.header('HX-Request') === undefined ? sessions.takeNotice(id) : undefined,
    },
    c.req.param(),
  )
  return isRaw(made) ? raw(c, made) : c.html(made)
}

function isRaw(made: object): made is Raw {
  return 'type' in made && 'body' in made
}

/** Answers with an asset. Everybody may load it. Browsers may keep it, because its URL has a version. */
function lasting(c: Context, { type, body }: Raw): Response {
  c.header('Cache-Control', 'private, max-age=31536000, immutable')
  return raw(c, { type, body })
}

function raw(c: Context, { type, body, filename }: Raw): Response {
  c.header('Content-Type', type)
  if (filename !== undefined)
    c.header('Content-Disposition', `attachment; filename="${filename.replace(/[^A-Za-z0-9._-]/g, '_')}"`)
  return c.body(typeof body === 'string' ? body : new Uint8Array(body))
}

function said(c: Context, status: PageError['status'], text: string): Response | Promise<Response> {
  return c.html(messagePage(text), status)
}
