import { runAside } from '../http/aside.js'
import { Dashboard } from './dashboard.js'
import type { FromDashboard, ToDashboard } from './messages.js'

/** The entry point of the dashboard's process. The daemon forks it and sends the first message. */
runAside<ToDashboard, FromDashboard>(send => new Dashboard(send))
