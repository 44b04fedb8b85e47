import { closeSync } from 'node:fs'
import { setTimeout } from '../../base/own-clock.js'
import { isRedisAddress } from '../../formats/protocol/redis-address.js'
import { giveMemoryBackWhenIdle } from '../../system/idle-memory.js'
import { mapInherited } from '../../system/shared-memory.js'
import { Marks } from '../ipc/marks.js'
import { MARKS_FD, type RunNews } from '../ipc/messages.js'
import { offerDaemon } from '../tasks/daemon.js'
import { events } from '../tasks/event-hub.js'
import { DEFAULT_NAMESPACE, type Tell, tellBegun, tellEnded, tellerOf } from '../tasks/lifecycle.js'
import { takeChildrensOutput } from './children-output.js'
import { ProcessDirectory } from './function-executor.js'
import type { Loop } from './loop.js'
import { takeOutput } from './own-output.js'
import { Road, sendNothing } from './road.js'
import { offerSignals } from './signal-api.js'
import { EXIT_REQUESTED, Worker } from './worker.js'

/** The entry point of a worker process. The master forks it and sends the first message. */

/**
 * The mercy, in ms, of a worker whose master is gone, and with it the configured one. It is the default of worker-reload-mercy.
 */
const ORPHAN_MERCY_MS = 60_000
/** How long the master may take, in ms, to read the last messages of a process that exits. */
const LAST_WORDS_MS = 1000

process.send = sendNothing('process.send', text => worker.printed('stderr', text))

const worker = new Worker({
  marks: new Marks(mapInherited(MARKS_FD, Marks.BYTES)),
  directory: new ProcessDirectory(),
  entered({ title, spool, application }, signals, daemon) {
    if (title !== null) process.title = title
    const home = application ?? spool
    if (!isRedisAddress(home)) process.chdir(home)
    offerSignals(signals)
    offerDaemon(daemon)
  },
  opened({ application }, loop) {
    if (application !== undefined) return // an application emits the events of runs itself
    const tell = tellerOf(DEFAULT_NAMESPACE, [events], message =>
      process.emitWarning(message, 'SpooldWarning'),
    )
    followWhileHeard(loop, tell)
  },
  send: (message, sent) => road.say(message, sent),
  exit(code) {
    setTimeout(() => process.exit(code), LAST_WORDS_MS).unref()
    road.end(() => process.exit(code))
  },
})
closeSync(MARKS_FD)

/** Emits the events of runs to those who listen in this process. */
function followWhileHeard(loop: Pick<Loop, 'follow'>, tell: Tell): void {
  const me = String(process.pid)
  const hear = (news: RunNews) =>
    news.type === 'run-began' ? tellBegun(tell, me, news.task) : tellEnded(tell, me, news.task, news.end)
  events.watch(isHeard => loop.follow(isHeard ? hear : undefined))
}

takeChildrensOutput((stream, text, sent) => worker.printed(stream, text, sent))
takeOutput((stream, text, sent) => worker.printed(stream, text, sent))

const road: Road = new Road(
  message => worker.hear(message),
  () => {
    // the master is gone: finish what runs, so that it does not run twice, and exit, so that no orphan stays
    process.on('exit', () => process.kill(process.pid, 'SIGKILL')) // because Node's own exit may hang (forked-port.ts)
    setTimeout(() => process.exit(EXIT_REQUESTED), ORPHAN_MERCY_MS).unref()
    worker.drain(ORPHAN_MERCY_MS)
  },
)

// a terminal's Ctrl-C reaches the whole process group, but the master decides; SIGUSR1 would open Node's debugger
for (const signal of [
  ...(['SIGINT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGTSTP'] as const),
  ...(['SIGALRM', 'SIGVTALRM', 'SIGIO', 'SIGPWR'] as const),
])
  process.on(signal, () => {})
process.on('SIGTERM', () => worker.drain(Number.POSITIVE_INFINITY)) // nobody kills it, unless the master says so
process.on('exit', () => worker.tellLast()) // a handler may call process.exit(); the system takes a message at once
process.on('uncaughtException', thrown => worker.fault(thrown))

giveMemoryBackWhenIdle()
