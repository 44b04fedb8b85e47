import type { DaemonSnapshot } from '../stats/snapshot.js'
import { RetriedListener } from './listener.js'
import type { ExporterOptions, FromExporter, ToExporter } from './messages.js'
import { StatsServer } from './stats-server.js'

/** A daemon that needs longer is as good as blocked. */
const ANSWER_MS = 3000

interface Waiting {
  readonly answered: (snapshot: DaemonSnapshot) => void
  readonly promise: Promise<DaemonSnapshot>
}

/** Publishes what a daemon tells of itself, in a process of its own: clients that flood it do not slow a single task. */
export class Exporter {
  readonly #send: (message: FromExporter) => void
  readonly #listeners: RetriedListener[] = []
  #waiting: Waiting | undefined

  constructor(send: (message: FromExporter) => void) {
    this.#send = send
  }

  hear(message: ToExporter): void {
    switch (message.type) {
      case 'open':
        return this.#open(message.options)
      case 'snapshot':
        this.#waiting?.answered(message.snapshot)
        this.#waiting = undefined
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#listeners.map(listener => listener.close()))
  }

  #open({ stats }: ExporterOptions): void {
    if (stats !== null) {
      const server = new StatsServer(stats, () => this.#snapshot())
      this.#listen('stats', stats.listener, server)
    }
  }

  #listen(
    what: string,
    options: ConstructorParameters<typeof RetriedListener>[0],
    server: Pick<StatsServer, 'accept'>,
  ): void {
    this.#listeners.push(
      new RetriedListener(options, {
        accept: socket => server.accept(socket),
        listening: address => this.#send({ type: 'listening', what, address }),
        trouble: message => this.#send({ type: 'trouble', message: `${what}: ${message}` }),
      }),
    )
  }

  /** However many ask, the daemon is asked one question at a time. @throws when it does not answer */
  #snapshot(): Promise<DaemonSnapshot> {
    this.#waiting ??= this.#ask()
    return withDeadline(this.#waiting.promise)
  }

  #ask(): Waiting {
    let answered: Waiting['answered'] = () => {}
    const promise = new Promise<DaemonSnapshot>(resolve => {
      answered = resolve
    })
    this.#send({ type: 'ask' })
    return { answered, promise }
  }
}

async function withDeadline<T>(promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('the daemon does not answer')), ANSWER_MS)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}
