import { Socket } from 'node:net'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf, quietly, SpooldError } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import type { Master } from '../../runtime/supervisor/master.js'
import { inodeAt, type Opener } from '../../system/opener.js'
import { KeptOpen, type Open } from '../net/kept-open.js'
import { CLIENT, type Orders } from './actions.js'

/** The time between two actions. Letters that arrive faster wait in the pipe, and then their writer waits. */
const PACE_MS = 50
/** Ignored: `echo q` ends its line. */
const BLANK = /\s/
const SHOWN_LETTERS = 20
/** The most letters that one read brings; a FIFO holds 64 KiB. */
const MAX_ACTIONS = 20
/** These letters come first in a flood. */
const STOPS = ['Q', 'q']

/** The FIFOs of `master-fifo`: letters that act as uWSGI's do (core/fifo.c), on all of them at once. */
export class MasterFifos {
  readonly #events: Emitter
  readonly #letters: Readonly<Record<string, () => void>>
  readonly #files: Pick<Opener, 'fifo'>
  readonly #fifos: KeptOpen
  /** Why the first opening failed; undefined: it did not fail, or is long over. */
  #refusal: SpooldError | undefined
  #isServed = false

  constructor(events: Emitter, orders: Orders, master: Master, files: Pick<Opener, 'fifo'>) {
    const reload = () => orders.reload(CLIENT)
    this.#events = events
    this.#files = files
    this.#fifos = new KeptOpen({
      open: async path => this.#listen(path),
      missing: (path, why) => this.#tellMissing(path, why),
    })
    this.#letters = {
      q: () => orders.stop(CLIENT),
      Q: () => orders.kill('SIGQUIT'),
      r: reload,
      R: reload, // uWSGI's kills what runs
      l: () => orders.reopenLog(),
      '+': () => master.checks.ask(1),
      '-': () => master.checks.ask(-1),
      C: () => master.checks.sleep(),
      p: () => orders.toggleQuiet('SIGTSTP'),
      s: () => orders.dump(),
    }
  }

  /**
   * Opens the FIFOs the first time, with the privileges that the daemon keeps: whoever may write to a FIFO commands the daemon.
   *
   * @throws SpooldError START_FAILED
   */
  async serve(paths: readonly string[]): Promise<void> {
    if (this.#isServed) return
    await this.#fifos.serve(paths.map(each => resolve(each)))
    this.#isServed = true
    if (this.#refusal !== undefined) throw this.#refusal
  }

  /** Closes the FIFOs. Their files stay, as in uWSGI. */
  async close(): Promise<void> {
    await this.#fifos.close()
  }

  #tellMissing(path: string, why: string): void {
    if (this.#isServed) return this.#events.emit('fifo-unavailable', { path, why })
    this.#refusal ??= new SpooldError(
      'START_FAILED',
      `master-fifo ${path} cannot be used: ${why}; name another path, or remove what is there`,
    )
  }

  #listen(path: string): Open {
    const { fd, inode } = this.#files.fifo(path, 0o600)
    const socket = new Socket({ fd, readable: true, writable: false })
    void this.#read(path, socket)
    return {
      // false once the file was removed or replaced, because others then write elsewhere; and if we may not look
      isReachable: () => quietly(() => !socket.destroyed && inodeAt(path) === inode, false),
      close: () => void socket.destroy(),
    }
  }

  async #read(path: string, socket: Socket): Promise<void> {
    try {
      for await (const chunk of socket) await this.#obey(path, (chunk as Buffer).toString('latin1'), socket)
    } catch (error) {
      if (!socket.destroyed) this.#events.emit('fifo-ignored', { path, why: messageOf(error) })
    }
  }

  async #obey(path: string, text: string, socket: Socket): Promise<void> {
    const known = [...text].filter(letter => Object.hasOwn(this.#letters, letter))
    const stop = known.length > MAX_ACTIONS ? STOPS.find(letter => known.includes(letter)) : undefined
    for (const letter of stop === undefined ? known.slice(0, MAX_ACTIONS) : [stop]) {
      if (socket.destroyed) return
      this.#letters[letter]?.()
      await sleep(PACE_MS)
    }
    if (known.length > MAX_ACTIONS)
      this.#events.emit('fifo-ignored', { path, why: `${known.length} letters at once` })
    const unknown = new Set([...text].filter(letter => !known.includes(letter) && !BLANK.test(letter)))
    if (unknown.size === 0) return
    const letters = [...unknown].slice(0, SHOWN_LETTERS).join('')
    const expected = Object.keys(this.#letters).join(', ')
    this.#events.emit('fifo-ignored', { path, why: `expected one of ${expected}, got ${letters}` })
    await sleep(PACE_MS)
  }
}
