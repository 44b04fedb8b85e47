// Longer than other files: a process, what it is sent, what it says and what it prints are one state machine.
import { type ChildProcess, spawn } from 'node:child_process'
import type { Duplex, Readable } from 'node:stream'
import { setTimeout as delay, setImmediate } from 'node:timers/promises'
import { countDown } from '../../../base/clock.js'
import { messageOf, SpooldError } from '../../../base/errors.js'
import { crypto } from '../../../base/on-demand.js'
import type { Outcome } from '../../../base/task/outcome.js'
import type { Claim } from '../../../engines/claims.js'
import { openShared } from '../../../system/shared-memory.js'
import { Page } from '../../ipc/host-page.js'
import { FIRST_AREA_FD, type HostOptions } from '../../ipc/messages.js'
import { OWN_CHILD } from '../children-output.js'
import {
  CALLS_FD,
  CallDecoder,
  encodeList,
  encodeRecall,
  encodeTasks,
  fromHost,
  LIFELINE_FD,
  LOST,
  TASKS_FD,
  UpDecoder,
  type UpFrame,
} from './frames.js'
import { HostOutput } from './host-output.js'

/** How long to wait, in ms, for the remaining frames of a dead host. */
const LAST_WORDS_MS = 100
/** How long a host may take, in ms, to exit when it is asked to. */
const LEAVE_MS = 2000
/** The interval, in ms, at which the output is polled, because an idle host may print too. */
const LISTEN_MS = 250
const TOKEN_BYTES = 16

/** How the process died, as the end of a sentence: `was killed by SIGSEGV`. */
type Death = string

/** The outcome of a task, and its output that was not taken before. */
export interface Ended {
  readonly outcome: Outcome
  readonly printed: string
}

interface HostProcessListener {
  /** Called when tasks have ended, or something was printed. */
  progress(): void
  /** True while the log is full. */
  isLogBehind(): boolean
  /** Called with output that belongs to no task, because it was printed while the host's code was loaded. */
  printed(text: string): void
  /** Called when the last `count` of the tasks that were sent will not be started. */
  recalled(count: number): void
  signalEnded(number: number, error: string): void
  /** Called when a task has ended or printed something, beside others. */
  beside(frame: UpFrame): void
  /** Answers a call of the host. @throws why it failed, worded for a handler */
  call(name: string, values: readonly Buffer[]): Promise<ReadonlyArray<string | Uint8Array>>
}

/**
 * One interpreter process, from its start to its death.
 *
 * States: loading → ready → dead.
 */
export class HostProcess {
  readonly #child: ChildProcess
  readonly #listener: HostProcessListener
  readonly #page = new Page(openShared(Page.BYTES))
  readonly #details = new Map<number, string>()
  /** Tasks are numbered in the order in which they were sent. */
  #sent = 0
  #collected = 0
  /** True once a task has ended in this process. */
  hasProgressed = false
  #messages = 0
  #isRecalling = false
  #isLoaded = false
  #isDead = false
  #fault: string | undefined
  /**
   * Undefined before the host has a pipe for its output, and if it cannot be read: the output goes then where the worker's goes.
   */
  #output: HostOutput | undefined
  #listening: NodeJS.Timeout | undefined
  /** Resolves with the tasks that the code declared (host.ts). Rejects with a SpooldError if the handlers cannot be loaded. */
  readonly whenReady: Promise<string>
  readonly whenDead: Promise<Death>
  #settleReady: { resolve(declared: string): void; reject(error: SpooldError): void } = {
    resolve() {},
    reject() {},
  }

  constructor(options: HostOptions, listener: HostProcessListener) {
    const { command, args, environment, home, settings } = options
    const areas = Array.from({ length: options.areas }, (_, i) => FIRST_AREA_FD + i)
    this.#listener = listener
    this.#child = spawn(command, args, {
      stdio: ['ignore', 'inherit', 'inherit', 'pipe', 'pipe', this.#page.fd, 'pipe', ...areas],
      env: { ...process.env, ...environment },
      cwd: home,
      ...OWN_CHILD,
    })
    this.whenReady = new Promise((resolve, reject) => {
      this.#settleReady = { resolve, reject }
    })
    this.whenReady.catch(() => {}) // not every caller awaits it, and a failure is also reported by the death
    this.whenDead = this.#awaitDeath()
    if (this.#child.pid === undefined) return // there are no pipes, and the death gives the reason
    const broken = (error: unknown) => this.#broken(error)
    readFrames(this.#pipe(TASKS_FD), new UpDecoder(), frame => this.#hear(frame), broken)
    readFrames(this.#pipe(CALLS_FD), new CallDecoder(), call => void this.#answer(call), broken)
    this.#pipe(LIFELINE_FD).on('error', () => {})
    this.#pipe(TASKS_FD).write(encodeList(settings.flat().map(each => Buffer.from(each, 'latin1'))))
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  /** The descriptor of the page. */
  get pageFd(): number {
    return this.#page.fd
  }

  /** How many messages the host has not finished. */
  get messages(): number {
    return this.#messages
  }

  get isRecalling(): boolean {
    return this.#isRecalling
  }

  /** True if the oldest task that has not been collected was running when the page was read last. */
  get hasStarted(): boolean {
    return this.#page.isRunning(this.#collected)
  }

  /** Reads the printed output. */
  listen(): void {
    this.#output?.poll()
  }

  /** Returns the unmarked output of the oldest task that has not been collected; empty while it is unknown who printed it. */
  takePrinted(): string {
    if (this.#isDead) return this.#output?.takeAll() ?? ''
    if (this.#output?.hasOpen !== true) return ''
    this.#page.refresh() // after reading the output: a task that has no result now cannot have ended before, without a mark
    return this.#page.resultOf(this.#collected) === undefined ? this.#output.takeOpen() : ''
  }

  /**
   * Sends tasks.
   *
   * @param numbers the master's numbers of these tasks
   * @returns the host's number of the first task
   */
  send(claims: readonly Claim[], numbers?: readonly number[]): number {
    const first = this.#sent
    if (numbers !== undefined) this.#page.note(first, numbers)
    this.#sent += claims.length
    this.post(encodeTasks(claims))
    return first
  }

  /** Sends a message. The host says `done` for each. */
  post(message: Buffer): void {
    this.#messages++
    this.#pipe(TASKS_FD).write(message)
  }

  /** Returns the tasks that have ended since the last call, in the order in which they were sent. */
  collect(): Ended[] {
    this.#page.refresh()
    const ended: Ended[] = []
    const first = this.#collected
    for (; this.#collected < this.#sent; this.#collected++) {
      const outcome = this.#hasHeard(this.#collected) ? this.#outcomeOf(this.#collected) : undefined
      if (outcome === undefined) break
      const hasPrinted = this.#page.hasPrinted(this.#collected)
      ended.push({ outcome, printed: hasPrinted ? (this.#output?.takeEndOf(this.#collected) ?? '') : '' })
    }
    this.#page.clear(first, ended.length)
    this.hasProgressed ||= ended.length > 0
    return ended
  }

  /** Takes back the tasks that have not started. @returns how many the host keeps; `recalled` may reduce that by one */
  recall(): number {
    this.#page.recall()
    this.#isRecalling = true
    this.#pipe(TASKS_FD).write(encodeRecall())
    this.#page.refresh()
    let first = this.#collected
    while (first < this.#sent && this.#page.hasBegun(first)) first++
    this.#sent = first
    return first - this.#collected
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }

  /** Resolves when the host is ready. @param timeoutMs 0: no limit @throws SpooldError HANDLER_UNLOADABLE */
  async readyWithin(timeoutMs: number): Promise<void> {
    const late = () => {
      this.#fault ??= `is still loading after ${timeoutMs / 1000} s (spooler-start-timeout)`
      this.kill()
    }
    const end = timeoutMs === 0 ? () => {} : countDown(timeoutMs, late)
    await this.whenReady.finally(end)
  }

  /** Lets an idle host exit. @returns false if the host was killed because it took too long */
  async end(): Promise<boolean> {
    this.#pipe(TASKS_FD).end()
    const late = delay(LEAVE_MS, false, { ref: false })
    const hasLeft = await Promise.race([this.whenDead.then(() => true), late])
    if (!hasLeft) this.kill()
    return hasLeft
  }

  /** True if all output of a task that has ended has been read. */
  #hasHeard(number: number): boolean {
    if (this.#output === undefined || this.#isDead) return true
    if (!this.#page.hasPrinted(number) || this.#output.hasEndOf(number)) return true
    this.#output.poll() // the mark was written before the result
    return this.#output.hasEndOf(number)
  }

  /** Returns the outcome of a task; undefined until it is known. */
  #outcomeOf(number: number): Outcome | undefined {
    const result = this.#page.resultOf(number)
    if (typeof result !== 'string') return result
    // the result may arrive before the frame with its detail; once the host is dead, a missing frame never arrives
    const said = this.#details.get(number)
    this.#details.delete(number)
    if (said === undefined) return this.#isDead ? LOST : undefined
    return fromHost(result, said)
  }

  #hear(frame: UpFrame): void {
    switch (frame.kind) {
      case 'ready':
        this.#loaded()
        return this.#settleReady.resolve(frame.text)
      case 'unloadable':
        this.#loaded()
        return this.#settleReady.reject(new SpooldError('HANDLER_UNLOADABLE', frame.text))
      case 'detail':
        return void this.#details.set(frame.number, frame.text)
      case 'output':
        return void this.#pipe(TASKS_FD).write(encodeList(this.#openOutput(frame.text)))
      case 'done':
        this.#messages--
        return this.#listener.progress()
      case 'recalled':
        return this.#recalled(frame.number)
      case 'ended':
      case 'printed':
        if (frame.kind === 'ended') this.hasProgressed = true
        return this.#listener.beside(frame)
      case 'signal-ended':
        return this.#listener.signalEnded(frame.number, frame.text)
    }
  }

  /** Passes on the output so far, which belongs to no task. */
  #loaded(): void {
    this.#isLoaded = true
    this.#output?.poll()
    this.#listener.printed(this.#output?.takeOpen() ?? '')
  }

  /**
   * Opens the output of the host.
   *
   * @returns the list to send to the host: the token of its marks, or nothing if the output cannot be read
   */
  #openOutput(path: string): Buffer[] {
    const token = crypto().randomBytes(TOKEN_BYTES)
    let output: HostOutput
    try {
      output = new HostOutput(path, this.#page, token, () => this.#listener.isLogBehind())
    } catch {
      return []
    }
    this.#output = output
    this.#listening = setInterval(() => {
      if (!output.poll()) return
      if (this.#isLoaded) this.#listener.progress()
      else this.#listener.printed(output.takeOpen()) // the output may tell what the code waits for
    }, LISTEN_MS).unref()
    return [token]
  }

  #recalled(first: number): void {
    this.#isRecalling = false
    this.#messages = 0
    const count = Math.max(0, this.#sent - first)
    this.#sent = first
    this.#listener.recalled(count)
    this.#listener.progress()
  }

  async #answer([name, ...values]: readonly Buffer[]): Promise<void> {
    try {
      this.#pipe(CALLS_FD).write(encodeList(['ok', ...(await this.#listener.call(String(name), values))]))
    } catch (error) {
      this.#pipe(CALLS_FD).write(encodeList(['error', messageOf(error)]))
    }
  }

  #pipe(fd: number): Duplex {
    return this.#child.stdio[fd] as Duplex
  }

  #broken(error: unknown): void {
    this.#fault ??= `was killed, because ${messageOf(error)}`
    this.kill()
  }

  async #awaitDeath(): Promise<Death> {
    const child = this.#child
    const how = await deathOf(child)
    await closed(child, [TASKS_FD, CALLS_FD, LIFELINE_FD], TASKS_FD)
    clearInterval(this.#listening)
    this.#output?.poll(true) // all that remains is in the pipe by now, and the results of the tasks must not wait for the log
    this.#isDead = true
    const why = this.#fault ?? `${how} before it was ready`
    this.#settleReady.reject(new SpooldError('HANDLER_UNLOADABLE', `${child.spawnfile} ${why}`))
    return this.#fault ?? how
  }

  /** Closes the output and the page. Call it after the death, once everything has been collected. */
  release(): void {
    this.#output?.close()
    this.#output = undefined
    this.#page.close()
  }
}

/** Reads the frames from a pipe of a host, up to the first byte that cannot be from a host. */
function readFrames<Frame>(
  pipe: Readable,
  decoder: { push(chunk: Buffer): Iterable<Frame> },
  hear: (frame: Frame) => void,
  broken: (error: unknown) => void,
): void {
  pipe.on('error', () => {}) // the host has died, which is reported elsewhere
  pipe.on('data', (chunk: Buffer) => {
    try {
      for (const frame of decoder.push(chunk)) hear(frame)
    } catch (error) {
      pipe.removeAllListeners('data')
      broken(error)
    }
  })
}

function deathOf(child: ChildProcess): Promise<Death> {
  return new Promise(resolve => {
    child.once('exit', (code, signal) =>
      resolve(signal === null ? `exited with code ${code}` : `was killed by ${signal}`),
    )
    child.once('error', error => resolve(`could not be run: ${messageOf(error)}`))
  })
}

/**
 * Closes the pipes once `last` has been read to its end. A child process of a handler may hold the other ends open
 * after the host's death, so the wait is limited.
 */
async function closed(child: ChildProcess, fds: readonly number[], last: number): Promise<void> {
  const pipeOf = (fd: number) => child.stdio?.[fd] as Duplex | null | undefined // there are none if the fork failed
  const pipe = pipeOf(last)
  // `setImmediate`, because on a busy machine the wait may end before what is in the pipe has been read
  if (pipe && !pipe.readableEnded)
    await Promise.race([
      new Promise(read => pipe.once('end', read)),
      delay(LAST_WORDS_MS).then(() => setImmediate()),
    ])
  for (const fd of fds) pipeOf(fd)?.destroy()
}
