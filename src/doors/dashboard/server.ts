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

/** Of every answer. No script, style or address of another site, nothing written into a page, and nobody may frame one. */
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

/** A proxy may take the prefix away, or leave it. */
function pathWithin(request: Request, { env }: { env?: Env['Bindings'] } = {}): string {
  const path = getPath(request)
  const prefix = env?.at.prefix ?? ''
  return prefix !== '' && `${path}/`.startsWith(`${prefix}/`) ? path.slice(prefix.length) || '/' : path
}

/** What a page names by a path of ours. In texts, quotation marks are written as references. */
const OWN_PATH = /(\s(?:href|src|action|formaction|hx-get|hx-post)=")\/(?!\/)/g
/** What stands between tags: texts and values of attributes have references for `<` and `>`. */
const TEXT = />[^<]+/g

/** Pages know nothing of a prefix, and show what strangers have written: both are seen to in all that leaves. */
async function finish(c: Context<Env>): Promise<void> {
  const { prefix } = c.env.at
  const to = c.res.headers.get('Location')
  if (to?.startsWith('/')) c.res.headers.set('Location', prefix + to)
  if (c.res.headers.get('Content-Type')?.startsWith('text/html') !== true) return
  const page = (await c.res.text()).replaceAll(TEXT, seen)
  c.res = new Response(prefix === '' ? page : page.replaceAll(OWN_PATH, `$1${prefix}/`), c.res)
}

/** Nothing turns the direction of what follows. The values of forms stay what they are: they come back. */
function seen(text: string): string {
  return text.split(/\r?\n/).map(printableLine).join('\n')
}

function statusOf(error: Error): PageError['status'] {
  if (error instanceof PageError) return error.status
  return error instanceof SpooldError && error.code === 'USAGE' ? 400 : 503
}

/** A file that never changes may be kept by the browser. */
function secure(headers: Headers): void {
  for (const [name, value] of Object.entries(SECURITY_HEADERS))
    if (name !== 'Cache-Control' || !headers.has(name)) headers.set(name, value)
}

/** Nothing is shown to anybody, or done, before it is known who it is. */
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

/** Nobody guesses 256 bits; but nobody has to be fast at it, either. */
const WRONG_MS = 500

/** A token that the file has begins a session. */
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
  if (!c.var.visitor.hasSession) throw new PageError(400, 'you have not logged in')
  await formOf(c, world)
  world.sessions.end(c.var.id)
  return c.redirect('/login', 303)
}

async function answer(c: Context<Env>, world: World, page: Page, form: Form = {}): Promise<Response> {
  const { visitor, id } = c.var
  if (!hasRight(visitor, page.right)) throw new PageError(403, 'this page is not for you')
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
        ask: (verb, args) => daemon.ask(verb, args),
        snapshot: async () => seenSnapshot(await daemon.snapshot(), sight),
      },
      spools: new ReadableSpools(spools, sight),
      path: c.req.path,
      query: new URL(c.req.url).searchParams,
      form,
      // of what refreshes a page itself only its figures are shown: it would take what the page after a form has to say
      notice: c.req.header('HX-Request') === undefined ? sessions.takeNotice(id) : undefined,
    },
    c.req.param(),
  )
  return isRaw(made) ? raw(c, made) : c.html(made)
}

function isRaw(made: object): made is Raw {
  return 'type' in made && 'body' in made
}

/** Scripts and styles, which everybody may load: their URLs have a version, so that browsers may keep them. */
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
