import { join } from 'node:path'
import { type Daemon, type DaemonSetup, startDaemon } from '../helpers/daemon.js'
import { workspace } from '../helpers/workspace.js'

/** Starts the built daemon on a spool on Redis, in a directory of its own. */
export function daemonOn(address: string, setup: Omit<DaemonSetup, 'spool'> = {}): Promise<Daemon> {
  const spool = join(workspace(), 'unused')
  return startDaemon({ ...setup, spool, ini: { spooler: address, ...setup.ini } })
}
