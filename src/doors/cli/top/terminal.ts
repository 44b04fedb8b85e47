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
/** Switches to another screen than the shell's, without a cursor, whose lines do not wrap. */
const ENTER = '\x1b[?1049h\x1b[?25l\x1b[?7l'
const LEAVE = '\x1b[?7h\x1b[?25h\x1b[?1049l'
const CLEAR = '\x1b[2J'
/** The size of a terminal that does not know its size, such as a serial line. */
const USUAL: Size = { columns: 80, rows: 24 }
/** The delay before a write is tried again if another program has made the terminal non-blocking. */
const RETRY_MS = 20
const PATIENCE_MS = 500
/** A terminal that has not taken a frame for this long takes nothing any more. */
const STUCK_MS = PATIENCE_MS / 2

interface TerminalUser {
  key(key: string): void
  /** Called when everything must be drawn again: the terminal has another size, or shows something else. */
  shownAnew(): void
  /** Called when no more keys will come, or nothing can be shown. */
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
 * The screen and the keys. Only changes are written, and not before the terminal has taken the last frame, so a slow terminal
 * gets fewer frames.
 *
 * Node itself tells keys from bytes. A library would add nothing but a few escape sequences.
 */
export class Terminal {
  readonly #user: TerminalUser
  readonly #input = new ReadStream(STDIN)
  readonly #signals: ReadonlyArray<readonly [NodeJS.Signals, () => void]>
  readonly #restore = () => this.#leave()
  readonly #resized = () => this.#anew()
  /** The lines on the screen; undefined if unknown. */
  #shown: readonly string[] | undefined
  #wanted: readonly string[] | undefined
  #isWriting = false
  /** When the last write began, on the clock of `performance.now()`. */
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
    process.once('exit', this.#restore) // also after an uncaught error
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

  /** Shows these lines, one for each row of the screen. */
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

  /**
   * Gives the terminal back; a second call does no harm. Synchronous, because it is the last act of a process. It writes nothing to a
   * terminal that takes nothing, which would block it for ever.
   */
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

  /** Ends the process as the signal would end any other program. */
  async #dieOf(signal: NodeJS.Signals): Promise<void> {
    await this.close()
    process.kill(process.pid, signal)
  }

  /** Resolves when the terminal has taken the last frame. Does not wait for a terminal that takes nothing. */
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

/**
 * The text that turns one screen into another. Lines are erased before they are written, because after a full line the cursor is still
 * in its last column.
 *
 * @param shown the lines on the screen; undefined to clear the screen first
 */
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
