import { type ChildProcess, fork } from 'node:child_process'
import { messageOf } from '../../base/errors.js'
import { entryFile } from '../../base/package-root.js'

interface AsideContext<Wanted, Heard, Said extends object> {
  /** What it is called: its entry file, and in messages. */
  readonly name: 'exporter' | 'dashboard'
  readonly log: { readonly fd: number }
  /** The first message that it gets. */
  open(wanted: Wanted): Said
  hear(message: Heard, answer: (message: Said) => void): void
  /** Something does not work, and is tried again; for the log. */
  trouble(message: string): void
}

/** A process that keeps dying is started less and less often, up to once per minute. */
const FIRST_RESPAWN_MS = 1000
const LAST_RESPAWN_MS = 60_000
/** A crowd of short requests leaves holes in each heap that glibc's malloc has for threads: one heap has fewer. */
const ONE_ARENA = { MALLOC_ARENA_MAX: '1' }
/** It only closes sockets, and awaits answers to what is on its way. */
const END_MS = 1000

/** A process beside the daemon that serves HTTP, while the configuration asks for it: its death and its load are not the daemon's. */
export class AsideProcess<Wanted extends object, Heard, Said extends object> {
  readonly #context: AsideContext<Wanted, Heard, Said>
  #wanted: Wanted | undefined
  #child: ChildProcess | undefined
  #respawn: NodeJS.Timeout | undefined
  #last = Promise.resolve()
  #delayMs = FIRST_RESPAWN_MS

  constructor(context: AsideContext<Wanted, Heard, Said>) {
    this.#context = context
  }

  /** Puts options into service; undefined: none. A process whose options stay the same stays, and so do its clients. */
  serve(wanted: Wanted | undefined): Promise<void> {
    return this.#inTurn(async () => {
      if (JSON.stringify(wanted) === JSON.stringify(this.#wanted)) return
      await this.#end() // its addresses have to be free
      this.#wanted = wanted
      if (wanted !== undefined) this.#spawn(wanted)
    })
  }

  /** Resolves when it is gone. */
  stop(): Promise<void> {
    return this.#inTurn(() => this.#end())
  }

  /** Reloads may follow one another faster than a process ends. */
  #inTurn(act: () => Promise<void>): Promise<void> {
    this.#last = this.#last.then(act)
    return this.#last
  }

  async #end(): Promise<void> {
    clearTimeout(this.#respawn)
    this.#wanted = undefined
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const heard = (event: string) => new Promise<void>(resolve => child.once(event, () => resolve()))
    const gone = Promise.all([heard('exit'), child.connected && heard('disconnect')]) // all that it said is heard by then
    send(child, { type: 'close' }) // doors/http/aside.ts hears it
    const timer = setTimeout(() => child.kill('SIGKILL'), END_MS)
    await gone
    clearTimeout(timer)
  }

  #spawn(wanted: Wanted): void {
    const { name, log, open, hear, trouble } = this.#context
    let child: ChildProcess
    try {
      child = fork(entryFile(name), [], {
        ...{ stdio: ['ignore', log.fd, log.fd, 'ipc'], execArgv: [] },
        env: { ...process.env, ...ONE_ARENA },
      })
    } catch (error) {
      return this.#died(wanted, messageOf(error), 0) // the system has no memory for another process
    }
    this.#child = child
    const startedAt = performance.now()
    const answer = (message: Said) => send(child, message)
    child.on('message', message => hear(message as Heard, answer))
    child.on('error', error => trouble(error.message))
    child.once('close', (code, signal) => {
      if (this.#child === child)
        this.#died(wanted, signal ?? `exit code ${code}`, performance.now() - startedAt)
    })
    send(child, open(wanted))
  }

  #died(wanted: Wanted, how: string, livedMs: number): void {
    if (livedMs > LAST_RESPAWN_MS) this.#delayMs = FIRST_RESPAWN_MS
    const delayMs = this.#delayMs
    this.#delayMs = Math.min(LAST_RESPAWN_MS, delayMs * 2)
    this.#child = undefined
    const { name, trouble } = this.#context
    trouble(`the ${name} died (${how}); it is started again in ${delayMs / 1000} s`)
    this.#respawn = setTimeout(() => this.#spawn(wanted), delayMs)
  }
}

function send(child: ChildProcess, message: object): void {
  if (child.connected) child.send(message, () => {})
}
