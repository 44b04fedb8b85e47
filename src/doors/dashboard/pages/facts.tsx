import type { PageContext } from '../context.js'
import { namedIn } from '../models/named.js'
import { scheduleRows } from '../models/schedules.js'
import { Audit } from '../views/audit.js'
import { Named } from '../views/named.js'
import { Schedules } from '../views/schedules.js'
import { framed, spoolScene } from './framed.js'

type Params = Readonly<Record<string, string>>

/** Named tasks: what runs, how it ended, their slots, queues and schedules. */
export async function namedPage(context: PageContext, params: Params) {
  const { snapshot, place } = await spoolScene(context, params)
  const source =
    "From the daemon's snapshot: at most a hundred names that it has run since its start, with rates over five minutes, a hundred that wait for slots, and those that are periodic. What other daemons run is not counted."
  return framed(
    context,
    snapshot,
    place,
    { page: 'named', title: 'Named tasks', source, isLive: true },
    <Named rows={namedIn(snapshot, place.directory)} nowMs={snapshot.atMs} />,
  )
}

/** What fires by itself. */
export async function schedulesPage(context: PageContext) {
  const snapshot = await context.daemon.snapshot()
  const rows = scheduleRows(snapshot.schedules)
  const source =
    "From the daemon's snapshot: all timers, cron schedules, commands, monitors and periodic tasks, the next one first."
  return framed(
    context,
    snapshot,
    null,
    { page: 'schedules', title: 'Schedules', source, isLive: true },
    <Schedules
      rows={rows}
      nowMs={snapshot.atMs}
      actor={context.viewer}
      idOf={spool => context.spools.all.find(({ directory }) => directory === spool)?.id}
    />,
  )
}

const MOST_LINES = 200

/** What people did in a spool, here and on the command line. */
export async function auditPage(context: PageContext, params: Params) {
  const { snapshot, place } = await spoolScene(context, params)
  const entries = await place.audit(MOST_LINES)
  const source = `The last ${MOST_LINES} lines at most of ${place.isOnRedis ? 'the audit in Redis' : '.spoold/audit'}, the newest first. A line comes before each act, and one with its result after it.`
  return framed(
    context,
    snapshot,
    place,
    { page: 'audit', title: 'Audit', source },
    <Audit entries={entries} nowMs={snapshot.atMs} />,
  )
}
