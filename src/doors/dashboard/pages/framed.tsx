import { raw } from 'hono/html'
import type { Child } from 'hono/jsx'
import type { DaemonSnapshot, SpoolSnapshot } from '../../../runtime/stats/snapshot.js'
import { assetHref } from '../assets.js'
import type { PageContext } from '../context.js'
import { sumOf } from '../models/counts.js'
import { PageError } from '../page-error.js'
import type { ReadableSpool } from '../readable-spools.js'
import { Hidden } from '../views/actions.js'
import { hrefOf, NAVIGATION, type PageName, type SpoolPage, spoolHref } from '../views/links.js'
import { LookContext } from '../views/parts.js'
import { countText, spanText } from '../views/text.js'

type Params = Readonly<Record<string, string>>

/** What a page is about. */
interface About {
  readonly page: PageName
  readonly title: string
  /** A sentence that says where the content comes from, and how much of it is shown at most. */
  readonly source: string
  /** True if the content refreshes itself. Nothing may be typed or chosen in it. */
  readonly isLive?: boolean
}

/** What is shown; `place` is null on a page about all spools. */
interface Scene {
  readonly snapshot: DaemonSnapshot
  readonly place: ReadableSpool | null
}

/** A page about one spool. */
export interface SpoolScene extends Scene {
  readonly place: ReadableSpool
  readonly spool: SpoolSnapshot
}

/** Returns what a page about one spool shows. @throws PageError if the daemon does not run the spool of the path */
export async function spoolScene(
  { daemon, spools }: PageContext,
  { spool: id = '' }: Params,
): Promise<SpoolScene> {
  const place = spools.get(id)
  const snapshot = await daemon.snapshot()
  const spool = snapshot.spools.find(({ directory }) => directory === place.directory)
  if (spool === undefined) throw new PageError(404, 'the daemon does not run this spool any more')
  return { snapshot, place, spool }
}

/** Returns the place where a listing begins: `from` of the query. */
export function fromIn({ query }: PageContext): number {
  const text = query.get('from') ?? '0'
  return /^[0-9]{1,9}$/.test(text) ? Number(text) : 0
}

interface FrameProps extends Scene {
  readonly context: PageContext
  readonly about: About
}

/** Puts content into the frame of all pages. @param forms are above the content, and not refreshed: somebody may be typing */
export function framed(
  context: PageContext,
  { snapshot, place }: Scene,
  about: About,
  content: Child,
  forms: Child = '',
) {
  const { viewer, notice } = context
  const { title, source, isLive = false } = about
  const frame = { context, snapshot, place, about }
  return (
    <LookContext.Provider value={{ viewer, nowMs: snapshot.atMs }}>
      <Document title={title}>
        <Top {...frame} />
        <div class="frame">
          <Pages {...frame} />
          <main id="content" tabindex={-1}>
            <h1>{title}</h1>
            <Switch {...frame} />
            {notice !== undefined && (
              <p role="status" class={`notice said ${notice.isGood ? 'good' : 'bad'}`}>
                {notice.text}
              </p>
            )}
            <p class="source">{source}</p>
            {forms}
            {isLive ? (
              <div
                id="live"
                hx-get={selfOf(context)}
                hx-trigger="refresh from:body"
                hx-select="#live"
                hx-swap="outerMorph"
              >
                {content}
              </div>
            ) : (
              content
            )}
          </main>
        </div>
      </Document>
    </LookContext.Provider>
  )
}

/** Returns the path and query of this page, to refresh it. */
function selfOf({ path, query }: PageContext): string {
  const text = query.toString()
  return text === '' ? path : `${path}?${text}`
}

// the policy in SECURITY_HEADERS forbids the inline stylesheet that htmx adds for its indicators, and all evaluation of code
const HTMX = JSON.stringify({
  includeIndicatorCSS: false,
  history: false,
  morphIgnore: ['data-htmx-powered', 'style'],
})

/** A whole HTML document. Its scripts are ours or those of packages, and come from this server. */
export function Document({ title, children }: { title: string; children: Child }) {
  return (
    <>
      {raw('<!DOCTYPE html>')}
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <meta name="htmx-config" content={HTMX} />
          <title>{`${title} · spoold`}</title>
          <link rel="icon" href={assetHref('icon.svg')} type="image/svg+xml" />
          <link rel="stylesheet" href={assetHref('uplot.css')} />
          <link rel="stylesheet" href={assetHref('dashboard.css')} />
          <script src={assetHref('htmx.js')} defer />
          <script src={assetHref('uplot.js')} defer />
          <script src={assetHref('dashboard.js')} defer />
        </head>
        <body>
          <a class="skip" href="#content">
            Skip to content
          </a>
          {children}
        </body>
      </html>
    </>
  )
}

function Top({ context, snapshot: { daemon, atMs } }: FrameProps) {
  const { viewer } = context
  const { host, pid, version, state, isQuiet, startedAtMs } = daemon
  const isFine = state === 'running' && !isQuiet
  return (
    <header class="top">
      <a class="brand" href="/">
        spoold
      </a>
      <span>{`${host}, process ${pid}`}</span>
      <span class={`badge ${isFine ? 'good' : 'warn'}`}>{isQuiet ? 'quiet' : state}</span>
      <span class="quiet">{`up ${spanText(atMs - startedAtMs)}, version ${version}`}</span>
      <span class="grow" />
      <span class="quiet">{`${viewer.name}: ${viewer.role}`}</span>
      <a href={selfOf(context)}>Refresh</a>
      <button type="button" id="refreshing" hidden>
        Stop live updates
      </button>
      {viewer.hasSession && (
        <form method="post" action="/logout">
          <Hidden fields={{}} />
          <button type="submit">Log out</button>
        </form>
      )}
    </header>
  )
}

/** The list of pages, each with the number of the tasks that it lists, where that is known. */
function Pages({ context: { viewer, spools }, snapshot, place, about: { page } }: FrameProps) {
  const { id, directory } = place ?? spools.all[0] ?? { id: '' }
  const counts = countsOf(snapshot.spools.find(spool => spool.directory === directory))
  return (
    <nav class="pages" aria-label="Pages">
      <ul>
        {NAVIGATION.filter(({ name }) => name !== 'audit' || viewer.role !== 'viewer').map(
          ({ name, title }) => {
            const count = counts[name]
            return (
              <li>
                <a href={hrefOf(name, id)} {...(name === page ? { 'aria-current': 'page' as const } : {})}>
                  {count === undefined || count === 0 ? title : `${title} ${countText(count)}`}
                </a>
              </li>
            )
          },
        )}
      </ul>
    </nav>
  )
}

function countsOf(spool: SpoolSnapshot | undefined): Readonly<Partial<Record<PageName, number>>> {
  if (spool === undefined) return {}
  const { tasks, dead } = spool
  return {
    waiting: tasks.due + tasks.unseen,
    running: tasks.running,
    parked: sumOf(tasks.parked),
    dead: dead.count,
  }
}

/** Links to the same page about the other spools. */
function Switch({ context: { spools }, place, about: { page } }: FrameProps) {
  if (place === null || spools.all.length < 2) return null
  const to: SpoolPage = page === 'task' ? 'spool' : (page as SpoolPage)
  return (
    <nav aria-label="Spools">
      <ul class="spools">
        {spools.all.map(({ id, directory }) => (
          <li>
            {id === place.id ? <strong>{directory}</strong> : <a href={spoolHref(id, to)}>{directory}</a>}
          </li>
        ))}
      </ul>
    </nav>
  )
}
