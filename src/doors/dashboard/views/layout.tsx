import { raw } from 'hono/html'
import type { Child } from 'hono/jsx'
import type { DaemonFacts } from '../../../runtime/stats/snapshot.js'
import type { Visitor } from '../access/visitor.js'
import { assetHref } from '../assets.js'
import { Hidden } from './actions.js'
import { hrefOf, NAVIGATION, type PageName, type SpoolPage, spoolHref } from './links.js'
import { countText, spanText } from './text.js'

/** A spool, and what URLs call it. */
export interface SpoolLink {
  readonly id: string
  readonly directory: string
}

/** What surrounds a page. */
export interface Frame {
  readonly page: PageName
  readonly title: string
  /** Where what is shown comes from, and how much of it at most: a sentence. */
  readonly source: string
  /** This page's own path and query, for refreshing. */
  readonly self: string
  readonly daemon: DaemonFacts
  readonly atMs: number
  /** All spools, and the one that the page is about; null: about all. */
  readonly spools: readonly SpoolLink[]
  readonly spool: SpoolLink | null
  /** Who looks. */
  readonly viewer: Pick<Visitor, 'name' | 'role' | 'hasSession'> & { readonly csrf: string }
  /** How many there are of what a page lists, for the navigation. */
  readonly counts: Readonly<Partial<Record<PageName, number>>>
  /** It refreshes itself: nothing is typed or chosen on it. */
  readonly isLive: boolean
  /** What the last act led to. */
  readonly notice: { readonly isGood: boolean; readonly text: string } | undefined
}

// the styles of indicators would be inline; nothing is evaluated anyway
const HTMX = JSON.stringify({
  includeIndicatorCSS: false,
  history: false,
  morphIgnore: ['data-htmx-powered', 'style'],
})

/** A page of the dashboard. */
export function Layout({ frame, forms, children }: { frame: Frame; forms: Child; children: Child }) {
  const { title, source, spool, spools, isLive, self, notice } = frame
  return (
    <Document title={title}>
      <Top frame={frame} />
      <div class="frame">
        <Pages frame={frame} />
        <main id="content" tabindex={-1}>
          <h1>{title}</h1>
          {spool !== null && spools.length > 1 && <Switch frame={frame} spool={spool} />}
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
              hx-get={self}
              hx-trigger="refresh from:body"
              hx-select="#live"
              hx-swap="outerMorph"
            >
              {children}
            </div>
          ) : (
            children
          )}
        </main>
      </div>
    </Document>
  )
}

/** Markup, with scripts that are ours or a package's and come from this server. */
function Document({ title, children }: { title: string; children: Child }) {
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

function Top({ frame: { daemon, atMs, viewer, self } }: { frame: Frame }) {
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
      <a href={self}>Refresh</a>
      <button type="button" id="refreshing" hidden>
        Stop live updates
      </button>
      {viewer.hasSession && (
        <form method="post" action="/logout">
          <Hidden fields={{ csrf: viewer.csrf }} />
          <button type="submit">Log out</button>
        </form>
      )}
    </header>
  )
}

function Pages({ frame: { page, spool, spools, counts, viewer } }: { frame: Frame }) {
  const { id = '' } = spool ?? spools[0] ?? {}
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

/** The same page about another spool. */
function Switch({ frame: { page, spools }, spool }: { frame: Frame; spool: SpoolLink }) {
  const to: SpoolPage = page === 'task' ? 'spool' : (page as SpoolPage)
  return (
    <nav aria-label="Spools">
      <ul class="spools">
        {spools.map(({ id, directory }) => (
          <li>
            {id === spool.id ? <strong>{directory}</strong> : <a href={spoolHref(id, to)}>{directory}</a>}
          </li>
        ))}
      </ul>
    </nav>
  )
}

/** A page of one thing, for those who are not known, or where there is nothing else to show. */
export function Plain({ title, children }: { title: string; children: Child }) {
  return (
    <Document title={title}>
      <header class="top">
        <a class="brand" href="/">
          spoold
        </a>
      </header>
      <main id="content" tabindex={-1}>
        <h1>{title}</h1>
        {children}
      </main>
    </Document>
  )
}
