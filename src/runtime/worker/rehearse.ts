import { toError } from '../../base/errors.js'
import type { Enqueuer } from '../../engines/enqueuer.js'
import type { WorkerOptions } from '../ipc/messages.js'
import { offerDaemon } from '../tasks/daemon.js'
import { openHandlers } from './handlers.js'
import { sendNothing } from './road.js'
import { WorkerSignals } from './signal-actions.js'
import { offerSignals } from './signal-api.js'

/**
 * The entry point of a process that loads handlers as a worker does, reports the result, and exits. Nothing is run or
 * stored.
 */

export type RehearsalOptions = Pick<WorkerOptions, 'chain' | 'hostSettings' | 'spool' | 'chdir'>

export interface RehearsalResult {
  /** Why the handlers could not be loaded. */
  readonly error?: string
  /** The warnings that the interpreters would have logged. */
  readonly warnings: readonly string[]
}

async function rehearse(options: RehearsalOptions): Promise<RehearsalResult> {
  const warnings: string[] = []
  const answer = (name: string, values: readonly Buffer[]): string[] => {
    if (name === 'warn') warnings.push(String(values[0]))
    return name.startsWith('spool') ? [`${options.spool}/uwsgi_spoolfile_on_nowhere`] : []
  }
  try {
    offerSignals(new WorkerSignals(() => {}))
    offerDaemon({ enqueuerOf: () => nowhere(options.spool), current() {} })
    const chain = await openHandlers(
      { ...options, startTimeoutMs: 0 },
      () => ({
        call: async (name, values) => answer(name, values),
        isLogBehind: () => false,
        print: (_author, text) => void process.stderr.write(text),
        send() {},
        closed() {},
        opened() {},
        failed() {},
        lost() {},
      }),
      () => {},
    )
    await Promise.all(chain.hosts.map(host => host.end()))
    return { warnings }
  } catch (thrown) {
    return { error: toError(thrown).message, warnings }
  }
}

/** Returns an enqueuer that stores nothing, for tasks that a module schedules while it is loaded. */
function nowhere(spool: string): Enqueuer {
  const stored = { path: `${spool}/uwsgi_spoolfile_on_nowhere`, isDuplicate: false }
  return {
    name: spool,
    store: async () => stored,
    storeAll: async requests => requests.map(() => ({ stored })),
  }
}

const send = process.send?.bind(process)
process.send = sendNothing('process.send', text => void process.stderr.write(text))

process.once('message', (options: RehearsalOptions) => {
  void rehearse(options).then(result => send?.(result, () => process.exit(0)))
})
process.once('disconnect', () => process.exit(1))
