import { setFlagsFromString } from 'node:v8'
import { messageOf } from '../../base/errors.js'
import { Emitter } from '../../base/events/emitter.js'
import { openLog } from '../../base/log/log.js'
import { STDERR } from '../../base/log/output.js'
import { SpareWorker } from '../../runtime/supervisor/forked-port.js'
import { giveMemoryBackWhenIdle } from '../../system/idle-memory.js'
import { libc } from '../../system/libc.js'
import { Opener } from '../../system/opener.js'
import { identityOf } from '../../system/privileges.js'
import { reapIfFirst } from '../../system/reaper.js'
import type { DaemonRequest } from './daemon.js'
import { RememberedLog } from './log-stream.js'
import { withParentsLog } from './parent.js'
import { ProcessEnvironment } from './process-environment.js'

/**
 * How much the master's heap may grow before a garbage collection. V8's default lets it triple, and a scan of
 * millions of tasks would do that.
 */
const HEAP_GROWTH_PERCENT = 25

/**
 * Runs a daemon from its configuration to its end.
 *
 * @returns the exit code
 * @throws SpooldError what kept it from starting; nothing is left behind
 */
export async function runDaemon(request: Omit<DaemonRequest, 'spare'>): Promise<number> {
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWTH_PERCENT}`)
  giveMemoryBackWhenIdle()
  reapIfFirst()
  const surroundings = new ProcessEnvironment()
  surroundings.enter(request.config)
  const { daemonize, logto, logFormat: format, logDate: date } = request.config.options
  const files = new Opener(identityOf(request.config.options))
  const log = request.isUnderRoot
    ? withParentsLog(openLog({ file: null, files, format, date }))
    : openLog({ file: daemonize ?? logto, files, format, date })
  const lines = new RememberedLog(log)
  if (log.fd === STDERR || request.isUnderRoot) lines.read(() => request.progress?.logged()) // the same terminal
  const events = new Emitter()
  const spare = canForkAhead(request) ? new SpareWorker({ logFd: log.fd, areas: [] }) : undefined
  try {
    const { Daemon } = await import('./daemon.js')
    return await new Daemon({ request: { ...request, spare }, surroundings, events, log, lines }).run()
  } catch (error) {
    // the error is printed on standard error in any case, which is also the log of a background process: do not log
    // it twice
    if (log.fd !== STDERR && daemonize === null) events.emit('start-failed', { error: messageOf(error) })
    throw error
  } finally {
    spare?.end()
    await log.end()
    if (isThreadBusy()) process.once('exit', leaveAtOnce) // the last to be told
  }
}

/** True while a thread works on a file: for ever if its disk hangs, or nobody reads the log. */
function isThreadBusy(): boolean {
  return process.getActiveResourcesInfo().some(name => name.startsWith('FSReq'))
}

/** Ends this process although one of its threads is blocked, for which Node would wait. Without libc it dies of a signal. */
function leaveAtOnce(exitCode: number): void {
  try {
    libc().exit(exitCode)
  } catch {
    process.kill(process.pid, 'SIGKILL')
  }
}

/**
 * A worker inherits the identity, the sockets and the shared memory of this process when it is forked. So it can be
 * forked now only if none of them is going to change.
 */
function canForkAhead({ config: { options, spools }, inherited }: Omit<DaemonRequest, 'spare'>): boolean {
  const { uid, gid, sharedarea } = options
  return (
    spools.some(({ isExternal }) => !isExternal) &&
    uid === null &&
    gid === null &&
    sharedarea.length === 0 &&
    inherited.length === 0
  )
}
