import { toError } from '../../base/errors.js'
import type { Stream } from '../../base/events/event-map.js'
import { boundedFailure, stackOf } from '../../base/task/failure-text.js'
import type { SignalNews } from '../../base/task/schedule.js'
import type { Engine } from '../../engines/open-engine.js'
import { Hide } from '../../formats/protocol/hide.js'
import { checkSendable, partsOf } from '../ipc/frames.js'
import type { Marks } from '../ipc/marks.js'
import type { DoAside, MasterMessage, WorkerMessage, WorkerOptions } from '../ipc/messages.js'
import type { CurrentDaemon } from '../tasks/daemon.js'
import type { Executor, ExecutorListener } from './executor.js'
import { FunctionExecutor, type ProcessDirectory } from './function-executor.js'
import type { Said } from './handler-task.js'
import { homeOf, type LoadedHandlers, openHandlers } from './handlers.js'
import type { LoadedHandler } from './load-module.js'
import { Loop } from './loop.js'
import { engineOf, openClaims } from './open-claims.js'
import type { Run } from './run.js'
import { WorkerSignals } from './signal-actions.js'
import { daemonOf } from './worker-daemon.js'

/** The exit code of uWSGI's spooler when it is asked to exit (end_me, core/uwsgi.c). */
export const EXIT_REQUESTED = 30

/** The most characters of printed text on their way to the master. Above that a writer has to wait, where that is possible. */
const HIGH_WATER_CHARS = 1024 * 1024

/** The process in which a worker runs: its own, or that of another program. */
interface WorkerHome {
  /** What this worker does with the tasks that it is given. */
  readonly marks: Marks
  /** @param sent called when the message has been handed to the channel, or cannot be delivered */
  send(message: WorkerMessage, sent: () => void): void
  /** Called when the last message has been handed to the channel. The worker does nothing any more. */
  exit(code: number): void
  /** Called when the options are known, before any handler is loaded. @param signals the signal functions for handlers */
  entered(options: WorkerOptions, signals: WorkerSignals, daemon: CurrentDaemon): void
  /** Called when the worker is ready, before it runs anything. */
  opened?(options: WorkerOptions, loop: Pick<Loop, 'follow'>): void
  /** The engine of the spool. Absent: the name of the spool tells the engine. */
  readonly engine?: Pick<Engine, 'claims'>
  /** The current directory of the process. Absent: the worker must not change it. */
  readonly directory?: ProcessDirectory
  /** Set if other code runs in the same process. */
  readonly shared?: SharedProcess
}

/** What a worker has to know of a process that it shares with other code. */
interface SharedProcess {
  /** The handlers that the link `given` of the chain stands for. */
  readonly given: readonly LoadedHandler[]
  /** The signal of a run fires after this many ms; 0: never. Nothing can be killed in a shared process. */
  readonly deadlineMs: number
  /** Calls handlers so that code that they call can be told from the rest of the program. */
  around<Result>(call: () => Result): Result
}

/**
 * Receives messages from the master, has them carried out, and reports the results.
 *
 * States: silent (until `open`) → loading → ready → drained.
 */
export class Worker {
  readonly #home: WorkerHome
  readonly #questions: MasterQuestions
  readonly #signals: WorkerSignals
  /** What handlers declared about signals before this worker was ready. */
  readonly #earlyNews: SignalNews[] = []
  #loop: Loop | undefined
  #handlers: LoadedHandlers | undefined
  /** Runs functions in this process. */
  #functions: FunctionExecutor | undefined
  /**
   * The deadlines that tasks in hosts have set themselves, on the clock of `performance.now()`, by the host's numbers. Undefined: a
   * deadline that ends with the next task that ends, because one task runs at a time, or it is unknown whose it is.
   */
  readonly #deadlines = new Map<number | undefined, number>()
  /**
   * Ends of printed text that could begin a hidden value, by run and stream. They are held back because the rest of the value may
   * come in the next piece.
   */
  readonly #heldBack = new Map<string, { number: number | null; stream: Stream; text: string }>()
  /** How many characters of printed text are on their way to the master. */
  #waitingChars = 0

  constructor(home: WorkerHome) {
    this.#home = home
    this.#questions = new MasterQuestions(message => this.#send(message))
    this.#signals = new WorkerSignals(news => this.#tellNews(news))
  }

  #tellNews(news: SignalNews): void {
    if (this.#loop === undefined) this.#earlyNews.push(news)
    else this.#send({ type: 'signal-news', news })
  }

  hear(message: MasterMessage): void {
    switch (message.type) {
      case 'open':
        return void this.#open(message.options)
      case 'do-aside':
        return void this.#doAside(message)
      case 'run':
        return this.#loop?.take(message)
      case 'signal':
        return this.#loop?.signal(message.number)
      case 'answer':
        return this.#questions.answered(message)
      case 'cancel':
        return this.#loop?.cancel(message.number)
      case 'recall':
        return this.#loop?.recall()
      case 'pause':
        return this.#loop?.pause(message.pairs)
      case 'follow':
        return this.#loop?.follow(message.isOn ? news => this.#send(news) : undefined)
      case 'drain':
        return this.drain(message.mercyMs)
    }
  }

  /** Takes no more tasks, finishes what runs, and exits. */
  drain(mercyMs: number): void {
    if (this.#loop === undefined) return this.#home.exit(EXIT_REQUESTED)
    this.#loop.drain(mercyMs)
  }

  /** Ends the worker after an exception outside any call: the state of the process is unknown, so no task may run any more. */
  fault(thrown: unknown): void {
    if (this.#loop === undefined) return this.#exitAfter({ type: 'unloadable', error: stackOf(thrown) }, 1)
    this.#handlers?.programs?.killAll() // before other workers may take the tasks of these programs
    const [message, stack] = [toError(thrown).message, stackOf(thrown)].map(text => this.#shown(text))
    const isReported = this.#loop.fault(thrown)
    const error = (isReported ? message : stack) ?? ''
    void this.#loop.settled().then(() => this.#exitAfter({ type: 'faulted', error }, 1))
  }

  /** Reports what ran and what runs when code in this process has ended the process, because nobody else knows. */
  tellLast(): void {
    this.#giveOut()
    if (this.#functions?.isLeftBehind === true) this.#loop?.abandon() // no run that goes on has ended the process
    this.#loop?.announce(this.#functions?.author)
  }

  #shown(text: string): string {
    return this.#loop?.shown(text) ?? text
  }

  /** Takes text that code in this process has printed, on behalf of the running task if that is known. */
  printed(stream: Stream, text: string, sent = () => {}): void {
    this.#print(this.#functions?.author, stream, text, sent)
  }

  /** Sends printed text. Announces the author first, so that the log line of its start precedes its output. */
  #print(author: Run | undefined, stream: Stream, text: string, sent: () => void): void {
    if (text === '') return sent()
    if (author !== undefined) this.#loop?.announce(author)
    const number = author?.number ?? null
    const key = `${number} ${stream}`
    const all = (this.#heldBack.get(key)?.text ?? '') + text
    const end = all.length - (this.#loop?.begunIn(all) ?? 0)
    if (end === all.length) this.#heldBack.delete(key)
    else this.#heldBack.set(key, { number, stream, text: all.slice(end) })
    if (end === 0) return sent()
    this.#waitingChars += end
    this.#say(
      this.#shown(all.slice(0, end)),
      part => ({ type: 'output', number, stream, text: part }),
      () => {
        this.#waitingChars -= end
        sent()
      },
    )
  }

  /** Sends text that was held back. @param of a run that ends; undefined: all text is sent, because this process ends */
  #giveOut(of?: Run): void {
    for (const [key, { number, stream, text }] of this.#heldBack) {
      if (of !== undefined && of.number !== number) continue
      this.#heldBack.delete(key)
      this.#say(
        this.#shown(text),
        part => ({ type: 'output', number, stream, text: part }),
        () => {},
      )
    }
  }

  /** Sends a line for the log, after the announcement of the run's start. */
  #log(run: Run, { message, stream }: Said, sent: () => void): void {
    this.#loop?.announce(run)
    const { name } = run.claim
    const messageOf = (part: string) =>
      ({ type: 'log', name, message: part, ...(stream && { stream }) }) as const
    this.#say(this.#shown(message), messageOf, sent)
  }

  /** Sends a text in parts. @param sent called when the last part has been handed to the channel */
  #say(text: string, messageOf: (part: string) => WorkerMessage, sent: () => void): void {
    const parts = partsOf(text)
    for (const [i, part] of parts.entries())
      this.#home.send(messageOf(part), i === parts.length - 1 ? sent : () => {})
  }

  async #open(options: WorkerOptions): Promise<void> {
    try {
      const current = () => this.#functions?.current
      const daemon = daemonOf(options, message => this.#send(message), current)
      this.#home.entered(options, this.#signals, daemon)
      const handlers = await this.#openHandlers(options)
      this.#handlers = handlers
      const delivery = handlers.delivery ?? options.delivery
      const claims = await openClaims(
        this.#engineOf(options),
        { ...options, delivery },
        {
          termsOf: handlers.termsOf,
          tell: (name, message) => this.#send({ type: 'log', name, message }),
          died: (run, death) => this.#loop?.died(run, death),
        },
      )
      this.#loop = new Loop(claims, await this.#executorOf(handlers, options), {
        ...options,
        marks: this.#home.marks,
        hide: new Hide(options.hide),
        harakiriMs: this.#home.shared?.deadlineMs ?? options.harakiriMs,
        isKilled: this.#home.shared === undefined,
        isConcurrent: handlers.concurrency > 1 || options.sharesProcess === true,
        ends: run => this.#ends(run),
        handle: number => this.#runSignal(homeOf(options), number),
        send: message => this.#send(message),
        died: (run, death) => {
          for (const host of handlers.hosts) host.died(run, death)
        },
        drained: () => void this.#leave(),
      })
      this.#home.opened?.(options, this.#loop)
      this.#send({
        type: 'ready',
        news: [...this.#earlyNews, ...handlers.periodic],
        concurrency: handlers.concurrency,
      })
    } catch (thrown) {
      this.#exitAfter({ type: 'unloadable', error: toError(thrown).message }, 1)
    }
  }

  #engineOf(options: WorkerOptions): Pick<Engine, 'claims'> {
    return this.#home.engine ?? engineOf(options)
  }

  #openHandlers(options: WorkerOptions): Promise<LoadedHandlers> {
    return openHandlers(
      options,
      host => {
        const opening = import('./hosts/calls.js').then(
          ({ Calls }) =>
            new Calls({
              ...options,
              signals: this.#signals,
              loaded: process => this.#tellNews(process),
              runSignal: number => host.signal(number),
              send: message => this.#send(message),
              ask: (name, values) => this.#questions.ask(name, values),
              setDeadline: (afterMs, task) => this.#setDeadline(afterMs, task),
            }),
        )
        return {
          call: async (name, values) => (await opening).answer(name, values),
          isLogBehind: () => this.#waitingChars > HIGH_WATER_CHARS,
          print: (author, text) => this.#print(author, 'output', text, () => {}),
          send: message => this.#send(message),
          closed: () => this.#loop?.closed(),
          opened: () => this.#loop?.progressed(),
          failed: error => {
            if (this.#loop !== undefined) this.#loop.giveUp(error)
            else this.#exitAfter({ type: 'unloadable', error }, 1)
          },
          lost: error => this.#exitAfter({ type: 'unfit', error }, 1),
        }
      },
      message => this.#send(message),
      this.#home.shared?.given,
    )
  }

  async #executorOf(
    { only, concurrency, performers, hosts }: LoadedHandlers,
    options: WorkerOptions,
  ): Promise<(listener: ExecutorListener) => Executor> {
    if (only !== undefined) {
      const { HostExecutor } = await import('./host-executor.js')
      return listener => new HostExecutor(only, listener)
    }
    return listener => {
      this.#functions = new FunctionExecutor(
        {
          chain: performers,
          context: {
            spool: options.spool,
            log: (run, said, sent = () => {}) => this.#log(run, said, sent),
          },
          chdir: options.chdir,
          directory: this.#home.directory,
          concurrency,
          hosts,
          around: this.#home.shared?.around,
        },
        listener,
      )
      return this.#functions
    }
  }

  #runSignal(home: string, number: number): unknown {
    this.#home.directory?.enter(home)
    return this.#signals.run(number)
  }

  /** Sets the deadline of a task that a host is running. @param number the host's number; undefined: the task is unknown */
  #setDeadline(afterMs: number, number: number | undefined): void {
    this.#loop?.announce()
    if (afterMs === 0) this.#deadlines.delete(number)
    else this.#deadlines.set(number, performance.now() + afterMs)
    this.#tellDeadline()
  }

  #tellDeadline(): void {
    const first = Math.min(...this.#deadlines.values())
    const leftMs = Math.max(1, Math.ceil(first - performance.now()))
    this.#send({ type: 'deadline', afterMs: first === Number.POSITIVE_INFINITY ? 0 : leftMs })
  }

  #ends(run: Run): void {
    this.#giveOut(run)
    if (this.#deadlines.size === 0) return
    const ended = [run.hostNumber, undefined].filter(number => this.#deadlines.delete(number))
    if (ended.length > 0) this.#tellDeadline()
  }

  /** Works for the master in a program that has no process aside. */
  async #doAside(message: DoAside): Promise<void> {
    const { answerAside } = await import('./after-a-kill.js')
    this.#send(await answerAside(message, options => this.#engineOf(options)))
  }

  /** Ends the interpreters and programs in good order, and exits. Call it when all tasks are done. */
  async #leave(): Promise<void> {
    const { hosts = [], programs } = this.#handlers ?? {}
    await Promise.all([...hosts, programs].map(each => each?.end()))
    this.#exitAfter({ type: 'drained' }, EXIT_REQUESTED)
  }

  #send(message: WorkerMessage): void {
    this.#home.send(message, () => {})
  }

  #exitAfter(message: WorkerMessage, code: number): void {
    this.#giveOut()
    const told = 'error' in message ? { ...message, error: boundedFailure(message.error) } : message
    this.#home.send(told, () => this.#home.exit(code))
  }
}

/** Sends questions of handlers to the master, and matches its answers to them. */
class MasterQuestions {
  readonly #send: (message: WorkerMessage) => void
  readonly #waiting = new Map<number, { resolve(values: Buffer[]): void; reject(error: Error): void }>()
  #next = 0

  constructor(send: (message: WorkerMessage) => void) {
    this.#send = send
  }

  /**
   * Asks the master. Rejects if the master answers with an error, or if the message would be too long: the master would not take
   * such a message, and that would cost this process.
   */
  ask(name: string, values: readonly Buffer[]): Promise<Buffer[]> {
    const message = {
      type: 'ask',
      id: this.#next++,
      name,
      values: values.map(value => value.toString('latin1')),
    } as const
    return new Promise((resolve, reject) => {
      checkSendable(name, message)
      this.#waiting.set(message.id, { resolve, reject })
      this.#send(message)
    })
  }

  answered({ id, values, error }: Extract<MasterMessage, { type: 'answer' }>): void {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    if (error === undefined) waiting?.resolve(values.map(value => Buffer.from(value, 'latin1')))
    else waiting?.reject(new Error(error))
  }
}
