import type { Page } from '../context.js'
import { bulkPage, chosenPage } from './bulk.js'
import { configurationPage } from './configuration.js'
import { auditPage, namedPage, schedulesPage } from './facts.js'
import { findPage } from './find.js'
import { overviewPage } from './overview.js'
import { parkedPage } from './parked.js'
import { spoolPage } from './spool.js'
import { bodyPage, taskPage } from './task.js'
import { deadPage, heldPage, retryingPage, runningPage, waitingPage } from './tasks.js'
import { workersPage } from './workers.js'

const VIEWER = { role: 'viewer' } as const

/** Every page that a GET shows. Requests that change something are in acts.ts. */
export const PAGES: readonly Page[] = [
  { path: '/', right: VIEWER, render: overviewPage },
  { path: '/schedules', right: VIEWER, render: schedulesPage },
  { path: '/configuration', right: VIEWER, render: configurationPage },
  { path: '/spools/:spool', right: VIEWER, render: spoolPage },
  { path: '/spools/:spool/waiting', right: VIEWER, render: waitingPage },
  { path: '/spools/:spool/running', right: VIEWER, render: runningPage },
  { path: '/spools/:spool/retrying', right: VIEWER, render: retryingPage },
  { path: '/spools/:spool/held', right: VIEWER, render: heldPage },
  { path: '/spools/:spool/parked', right: VIEWER, render: parkedPage },
  { path: '/spools/:spool/dead', right: VIEWER, render: deadPage },
  { path: '/spools/:spool/find', right: VIEWER, render: findPage },
  { path: '/spools/:spool/bulk/:action', right: VIEWER, render: bulkPage },
  { path: '/spools/:spool/named', right: VIEWER, render: namedPage },
  { path: '/spools/:spool/workers', right: VIEWER, render: workersPage },
  { path: '/spools/:spool/audit', right: { role: 'operator' }, render: auditPage },
  { path: '/spools/:spool/tasks/:ref', right: VIEWER, render: taskPage },
  { path: '/spools/:spool/tasks/:ref/body', right: { role: 'viewer', payload: true }, render: bodyPage },
]

/** Pages that are made from a form, because the check boxes of a listing can be too many for a URL. They change nothing. */
export const FORM_PAGES: readonly Page[] = [
  { path: '/spools/:spool/chosen/:action', right: VIEWER, render: chosenPage },
]
