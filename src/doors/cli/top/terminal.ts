import { write, writeSync } from 'node:fs'
import { emitKeypressEvents } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { isatty, ReadStream } from 'node:tty'
import { SpooldError } from '../../../base/errors.js'
import { ownListener } from '../signals.js'
import { keyOf } from './keys.js'
import type { Size } from './screen.js'

const STDIN = 0
const STDOUT = 1
/** Another screen than the shell's, without a cursor, whose lines do not wrap. */
const ENTER = '\x1b[?1049h\x1b[?25l\x1b[?7l'
const LEAVE = '\x1b[?7h\x1b[?25h\x1b[?1049l'
const CLEAR = '\x1b[2J'
/** A terminal that does not know its size, such as a serial line, has this one. */
const USUAL: Size = { columns: 80, rows: 24 }
/** Before it is tried again, where another program has made the terminal non-blocking. */
const RETRY_MS = 20
const PATIENCE_MS = 500
/** A terminal that has not taken a frame for so long takes nothing. */
const STUCK_MS = PATIENCE_MS / 2

interface TerminalUser {
  key(key: string): void
  /** Draw again: the terminal has another size, or shows something else by now. */
  shownAnew(): void
  /** No more keys will come, or nothing can be shown. */
  gone(): void
}

/** @throws SpooldError USAGE if this process cannot take over a screen */
export function checkTerminal({ TERM = '' }: Readonly<Record<string, string | undefined>>): void {
  const hint = 'spoold status says the same once, in plain lines'
  if (!isatty(STDIN) || !isatty(STDOUT)) throw new SpooldError('USAGE', `top needs a terminal; ${hint}`)
  if (TERM === '' || TERM === 'dumb')
    throw new SpooldError('USAGE', `top cannot draw on this terminal (TERM=${TERM}); ${hint}`)
}

/**
 * The screen and the keys. Only what has changed is written, and not before the terminal has taken the frame before: a slow
 * one gets fewer frames.
 *
 * Node itself tells keys from bytes; what else a library would bring here are a few escape sequences.
 */
export class Terminal {
  readonly #user: TerminalUser
  readonly #input = new ReadStream(STDIN)
  readonly #signals: ReadonlyArray<readonly [NodeJS.Signals, () => void]>
  readonly #restore = () => this.#leave()
  readonly #resized = () => this.#anew()
  /** What is on the screen; undefined: unknown. */
  #shown: readonly string[] | undefined
  #wanted: readonly string[] | undefined
  #isWriting = false
  /** In terms of `performance.now()`. */
  #writingSince = 0
  #isOpen = false

  constructor(user: TerminalUser) {
    this.#user = user
    const stop = (signal: NodeJS.Signals) => ownListener(() => void this.#dieOf(signal))
    this.#signals = [
      ['SIGCONT', () => this.#enter()],
      ['SIGTSTP', () => void this.suspend()],
      ['SIGINT', stop('SIGINT')],
      ['SIGTERM', stop('SIGTERM')],
      ['SIGHUP', stop('SIGHUP')],
      ['SIGQUIT', stop('SIGQUIT')],
    ]
    emitKeypressEvents(this.#input)
    this.#input.on('keypress', (text: string | undefined, pressed) => {
      const key = keyOf(text, pressed ?? {})
      if (key !== undefined) user.key(key)
    })
    this.#input.on('error', () => user.gone())
    this.#input.on('end', () => user.gone())
  }

  get size(): Size {
    const [columns = 0, rows = 0] = process.stdout.getWindowSize?.() ?? []
    return columns > 0 && rows > 0 ? { columns, rows } : USUAL
  }

  open(): void {
    for (const [signal, listener] of this.#signals) process.on(signal, listener)
    process.stdout.on('resize', this.#resized)
    process.once('exit', this.#restore) // also after an error that nobody caught
    this.#enter()
  }

  async close(): Promise<void> {
    this.#wanted = undefined
    await this.#written()
    for (const [signal, listener] of this.#signals) process.off(signal, listener)
    process.stdout.off('resize', this.#resized)
    process.off('exit', this.#restore)
    this.#leave()
    this.#input.destroy()
  }

  /** @param lines one for each row of the screen */
  draw(lines: readonly string[]): void {
    this.#wanted = lines
    this.#write()
  }

  /** Gives the terminal back, and stops this process until it is continued. */
  async suspend(): Promise<void> {
    this.#wanted = undefined
    await this.#written()
    this.#leave()
    process.kill(process.pid, 'SIGSTOP')
  }

  /** Draws all lines again. */
  clear(): void {
    this.#anew()
  }

  #enter(): void {
    if (!this.#isOpen) writeQuietly(ENTER)
    this.#isOpen = true
    this.#input.setRawMode(true)
    this.#input.resume()
    this.#anew()
  }

  /** Twice does no harm. Synchronous, for it is the last that a process does: a terminal that takes nothing would stop it here for ever. */
  #leave(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#shown = undefined
    if (this.#isWriting && performance.now() - this.#writingSince > STUCK_MS) return
    this.#input.setRawMode(false)
    writeQuietly(LEAVE)
  }

  #anew(): void {
    this.#shown = undefined
    this.#user.shownAnew()
  }

  /** As the signal would end any other program. */
  async #dieOf(signal: NodeJS.Signals): Promise<void> {
    await this.close()
    process.kill(process.pid, signal)
  }

  /** Resolves when the terminal has taken the last frame. One that takes nothing is not waited for. */
  async #written(): Promise<void> {
    for (let waitedMs = 0; this.#isWriting && waitedMs < PATIENCE_MS; waitedMs += RETRY_MS)
      await sleep(RETRY_MS)
  }

  #write(): void {
    const wanted = this.#wanted
    if (this.#isWriting || wanted === undefined || !this.#isOpen) return
    const frame = frameOf(this.#shown, wanted)
    this.#wanted = undefined
    this.#shown = wanted
    if (frame === '') return
    this.#isWriting = true
    this.#writingSince = performance.now()
    this.#send(Buffer.from(frame))
  }

  #send(bytes: Buffer): void {
    write(STDOUT, bytes, (error, written) => {
      if (error?.code === 'EAGAIN') return void setTimeout(() => this.#send(bytes), RETRY_MS)
      if (error !== null) return this.#user.gone()
      if (written < bytes.length && this.#isOpen) return this.#send(bytes.subarray(written))
      this.#isWriting = false
      this.#write()
    })
  }
}

/** What turns one screen into another. A line is erased first: after a full one, the cursor is still in its last column. @param shown undefined: it has to be cleared */
function frameOf(shown: readonly string[] | undefined, wanted: readonly string[]): string {
  const lines = wanted
    .map((line, i) => (shown?.[i] === line ? '' : `\x1b[${i + 1};1H\x1b[2K${line}`))
    .join('')
  return shown === undefined ? CLEAR + lines : lines
}

function writeQuietly(text: string): void {
  try {
    writeSync(STDOUT, text)
  } catch {} // the terminal is gone, or takes nothing now
}
