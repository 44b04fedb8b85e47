import type { Child } from 'hono/jsx'
import type { HtmlEscapedString } from 'hono/utils/html'
import type { DaemonSnapshot, SpoolSnapshot } from '../../../runtime/stats/snapshot.js'
import type { PageContext } from '../context.js'
import { sumOf } from '../models/counts.js'
import { PageError } from '../page-error.js'
import type { ReadableSpool } from '../readable-spools.js'
import { type Frame, Layout } from '../views/layout.js'

type Params = Readonly<Record<string, string>>

/** What a page is about. */
interface About extends Pick<Frame, 'page' | 'title' | 'source'> {
  readonly isLive?: boolean
}

/** Puts content into the frame of all pages. @param forms above it, and not refreshed: somebody may be typing */
export function framed(
  context: PageContext,
  snapshot: DaemonSnapshot,
  spool: ReadableSpool | null,
  { isLive = false, ...about }: About,
  content: Child,
  forms: Child = '',
): HtmlEscapedString | Promise<HtmlEscapedString> {
  const { viewer, spools, path, query, notice } = context
  const text = query.toString()
  const frame: Frame = {
    ...about,
    isLive,
    self: text === '' ? path : `${path}?${text}`,
    daemon: snapshot.daemon,
    atMs: snapshot.atMs,
    spools: spools.all,
    spool,
    viewer,
    counts: countsOf(snapshot, spool ?? spools.all[0]),
    notice,
  }
  return (
    <Layout frame={frame} forms={forms}>
      {content}
    </Layout>
  )
}

function countsOf({ spools }: DaemonSnapshot, shown: ReadableSpool | undefined): Frame['counts'] {
  const spool = spools.find(({ directory }) => directory === shown?.directory)
  if (spool === undefined) return {}
  const { tasks, dead } = spool
  return {
    waiting: tasks.due + tasks.unseen,
    running: tasks.running,
    parked: sumOf(tasks.parked),
    dead: dead.count,
  }
}

/** A page about one spool. */
export interface SpoolScene {
  readonly snapshot: DaemonSnapshot
  readonly place: ReadableSpool
  readonly spool: SpoolSnapshot
}

/** @throws PageError if the daemon does not run the spool of the path */
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

/** Where a listing begins: `from` of the query. */
export function fromIn({ query }: PageContext): number {
  const text = query.get('from') ?? '0'
  return /^[0-9]{1,9}$/.test(text) ? Number(text) : 0
}
