import { toError } from '../base/errors.js'
import type { ClaimsAtOnce } from '../engines/claims.js'
import { openDirectoryClaims } from '../engines/directory/claims.js'
import type { MarksCleared, MasterMessage, WorkerMessage, WorkerOptions } from '../ipc/messages.js'
import type { Ref } from '../task/ref.js'
import type { SignalNews } from '../task/schedule.js'
import { stackOf } from '../task/stack.js'
import type { Stream } from '../task/stream.js'
import { takeChildrensOutput } from './children-output.js'
import { Executor, enterDirectory } from './executor.js'
import { handlerNames, type LoadedHandlers, openHandlers } from './handlers.js'
import { takeOutput } from './own-output.js'
import { Printer } from './printer.js'
import { MasterQuestions } from './questions.js'
import type { Run } from './run.js'
import { Runner } from './runner.js'
import { WorkerSignals } from './signal-actions.js'
import { offerSignals } from './signal-api.js'
import type { RunnerOptions, TaskRunner } from './task-runner.js'

/** The entry of a worker process: the master forks it and speaks first. */

/** What uWSGI's spooler exits with when it was told to (end_me, core/uwsgi.c). */
const EXIT_TOLD = 30
/** An orphan has nobody to set its mercy: the default of worker-reload-mercy. */
const ORPHAN_MERCY_MS = 60_000

let runner: TaskRunner | undefined
let chain: LoadedHandlers | undefined
/** Of JavaScript handlers. */
let executor: Executor | undefined
const printer = new Printer(send)
const questions = new MasterQuestions(send)
/** What was said about signals before the master was told that this worker is ready. */
const earlyNews: SignalNews[] = []
const signals = new WorkerSignals(news => {
  if (runner === undefined) earlyNews.push(news)
  else send({ type: 'signal-news', news })
})

function send(message: WorkerMessage | MarksCleared, sent: () => void = () => {}): void {
  if (!process.connected || process.send === undefined) return sent()
  process.send(message, undefined, undefined, sent)
}

takeChildrensOutput((stream, text, sent) => print(executor?.author, stream, text, sent))
takeOutput((stream, text, sent) => print(executor?.author, stream, text, sent))

function exitAfter(message: WorkerMessage | MarksCleared, code: number): void {
  send(message, () => process.exit(code))
}

/** What a handler prints stands behind the line that its task begins. */
function print(author: Run | undefined, stream: Stream, text: string, sent?: () => void): void {
  if (author !== undefined) runner?.announce(author)
  printer.print(author?.claim.ref ?? null, stream, text, sent)
}

async function open(options: WorkerOptions): Promise<void> {
  try {
    if (options.title !== null) process.title = options.title
    process.chdir(options.spool)
    offerSignals(signals)
    chain = await openChainOf(options)
    const { spool } = options
    const claims = await openClaims({ ...options, delivery: chain.delivery ?? options.delivery })
    const runnerOptions = {
      ...options,
      handle(number: number) {
        enterDirectory(spool)
        return signals.run(number)
      },
      send,
      printer,
      drained: () => void leave(),
    }
    if (chain.only === undefined) runner = openRunner(claims, chain, options, runnerOptions)
    else {
      const { BatchRunner } = await import('./batch-runner.js')
      runner = new BatchRunner(claims, chain.only, runnerOptions)
    }
    send({ type: 'ready', news: earlyNews })
  } catch (thrown) {
    exitAfter({ type: 'unloadable', error: toError(thrown).message }, 1)
  }
}

function openClaims(options: WorkerOptions): Promise<ClaimsAtOnce> {
  const { ordered, strictNames, chain: links } = options
  return openDirectoryClaims({
    ...options,
    rules: { ordered, strictNames },
    handlers: handlerNames(links),
  })
}

async function clearMarksOf(options: WorkerOptions, refs: readonly Ref[]): Promise<void> {
  try {
    const claims = await openClaims(options)
    const { clearMarks } = await import('./clear-marks.js')
    exitAfter({ type: 'marks-cleared', ...(await clearMarks(claims, refs)) }, 0)
  } catch (thrown) {
    exitAfter({ type: 'marks-cleared', left: refs, error: toError(thrown).message }, 1)
  }
}

function openChainOf(options: WorkerOptions): Promise<LoadedHandlers> {
  return openHandlers(
    options,
    host => {
      const opening = import('./hosts/calls.js').then(
        ({ Calls }) =>
          new Calls({
            ...options,
            signals,
            runSignal: number => host().signal(number),
            send,
            ask: (name, values) => questions.ask(name, values),
            setDeadline,
          }),
      )
      return {
        call: async (name, values) => (await opening).answer(name, values),
        isLogBehind: () => printer.isBehind,
        printed: text => printer.print(null, 'output', text),
        died({ pid, options: { language } }, death) {
          send({ type: 'host-died', detail: `the ${language} interpreter (pid: ${pid}) ${death}` })
        },
        revived: () => send({ type: 'host-revived' }),
        failed({ message }) {
          if (runner === undefined) return exitAfter({ type: 'unloadable', error: message }, 1)
          runner.giveUp(message)
        },
      }
    },
    send,
    (author, text) => print(author, 'output', text),
  )
}

/** Of what a host runs now. */
function setDeadline(afterMs: number): void {
  runner?.announce()
  send({ type: 'deadline', afterMs })
}

function openRunner(
  claims: ClaimsAtOnce,
  { performers }: LoadedHandlers,
  options: WorkerOptions,
  runnerOptions: RunnerOptions,
): Runner {
  printer.isBeside = options.concurrency > 1
  executor = new Executor({
    chain: performers,
    context: {
      spool: options.spool,
      log(run, name, { message, stream }, sent) {
        opened.announce(run) // that it runs is the line before
        send({ type: 'log', name, message, ...(stream === undefined ? {} : { stream }) }, sent)
      },
    },
    chdir: options.chdir,
    isConcurrent: options.concurrency > 1,
  })
  const opened = new Runner(claims, executor, runnerOptions)
  return opened
}

/** Everything is done: the interpreters may leave in good order too. */
async function leave(): Promise<void> {
  await Promise.all([...(chain?.hosts ?? []), chain?.programs].map(each => each?.end()))
  exitAfter({ type: 'drained' }, EXIT_TOLD)
}

function drain(mercyMs: number): void {
  if (runner === undefined) return process.exit(EXIT_TOLD)
  runner.drain(mercyMs)
}

process.on('message', (message: MasterMessage) => {
  switch (message.type) {
    case 'open':
      return void open(message.options)
    case 'clear-marks':
      return void clearMarksOf(message.options, message.refs)
    case 'run':
      return runner?.take(message.first, message.refs, message.lastRuns)
    case 'signal':
      return runner?.signal(message.number)
    case 'answer':
      return questions.answered(message)
    case 'cancel':
      return runner?.cancel()
    case 'drain':
      return drain(message.mercyMs)
  }
})

// the master is gone: finish what runs, so that it does not run twice, and leave no orphan
process.on('disconnect', () => {
  setTimeout(() => process.exit(EXIT_TOLD), ORPHAN_MERCY_MS).unref()
  drain(ORPHAN_MERCY_MS)
})

// a terminal's Ctrl-C reaches the whole group, but it is the master that decides; USR1 would open Node's debugger
for (const signal of [
  ...(['SIGINT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGTSTP'] as const),
  ...(['SIGALRM', 'SIGVTALRM', 'SIGPROF', 'SIGIO', 'SIGPWR'] as const),
])
  process.on(signal, () => {})
process.on('SIGTERM', () => drain(ORPHAN_MERCY_MS))

// after an uncaught exception the state of the process is unknown: take no more tasks
process.on('uncaughtException', thrown => {
  if (runner === undefined) return exitAfter({ type: 'unloadable', error: stackOf(thrown) }, 1)
  chain?.programs?.killAll() // before others may take their tasks
  const isTold = runner.fault(thrown)
  exitAfter({ type: 'faulted', error: isTold ? toError(thrown).message : stackOf(thrown) }, 1)
})
