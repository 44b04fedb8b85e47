import type { Engine } from '../../engines/open-engine.js'
import { InProcessPort } from '../../runtime/supervisor/in-process-port.js'
import type { WorkerPort } from '../../runtime/supervisor/worker-port.js'
import type { CurrentDaemon } from '../../runtime/tasks/daemon.js'
import type { LoadedHandler } from '../../runtime/worker/load-module.js'
import { Worker } from '../../runtime/worker/worker.js'
import { runningAs } from '../tasks/running-as.js'

/** What a worker in this process needs besides its options, which are the same in other processes. */
interface InProcessContext {
  readonly engine: Engine
  readonly given: readonly LoadedHandler[]
  readonly deadlineMs: number
  readonly enqueuerOf: CurrentDaemon['enqueuerOf']
}

/** A worker that lives in this process, and changes nothing of it. */
export function openInProcess({ engine, given, deadlineMs, enqueuerOf }: InProcessContext): WorkerPort {
  let daemon: CurrentDaemon = { enqueuerOf, current: () => undefined }
  return new InProcessPort(
    home =>
      new Worker({
        ...home,
        engine,
        shared: { given, deadlineMs, around: call => runningAs(daemon, call) },
        entered(_options, _signals, own) {
          daemon = { enqueuerOf, current: () => own.current() }
        },
      }),
  )
}
