import { execFileSync } from 'node:child_process'
import { closeSync, constants, existsSync, fstatSync, lstatSync, openSync } from 'node:fs'
import { Socket } from 'node:net'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf, SpooldError } from '../base/errors.js'
import type { Emitter } from '../events/emitter.js'
import type { PoolChecks } from '../supervisor/pool-checks.js'
import type { Acting } from './actions.js'

/** Missing from Node's constants: opens a descriptor that refers to a file without opening the file itself. */
const O_PATH = 0o10000000
/** Between two actions. Letters that arrive faster wait in the pipe, and then their writer waits. */
const PACE_MS = 50
/** `echo q` ends its line. */
const BLANK = /\s/
const SHOWN_LETTERS = 20
/** Of what one read brings; a FIFO holds 64 KiB. */
const MAX_ACTIONS = 20
/** In a flood these come first. */
const STOPS = ['Q', 'q']

interface FifoActing extends Pick<Acting, 'quiet' | 'reload' | 'reopenLog' | 'stop'> {
  readonly checks: Pick<PoolChecks, 'ask' | 'sleep'>
}

type Letters = Readonly<Record<string, () => void>>

/** The FIFOs of `master-fifo`: letters that act as uWSGI's do (core/fifo.c), on all of them at once. */
export class MasterFifos {
  readonly #events: Emitter
  readonly #letters: Letters
  readonly #open: Socket[] = []
  #hasOpened = false

  constructor(events: Emitter, acting: FifoActing) {
    this.#events = events
    this.#letters = {
      q: acting.stop,
      Q: () => process.kill(process.pid, 'SIGQUIT'),
      r: acting.reload,
      R: acting.reload, // uWSGI's kills what runs
      l: acting.reopenLog,
      '+': () => acting.checks.ask(1),
      '-': () => acting.checks.ask(-1),
      C: () => acting.checks.sleep(),
      p: () => acting.quiet.toggle('SIGTSTP'),
      s: () => process.kill(process.pid, 'SIGTTIN'),
    }
  }

  /**
   * Opens them the first time, with the privileges that the daemon keeps: whoever may write to one commands the daemon.
   *
   * @throws SpooldError START_FAILED
   */
  serve(paths: readonly string[]): void {
    if (this.#hasOpened) return
    this.#hasOpened = true
    for (const path of new Set(paths.map(each => resolve(each)))) {
      const socket = openFifo(path)
      this.#open.push(socket)
      void this.#read(path, socket)
    }
  }

  /** The files stay, as in uWSGI. */
  close(): void {
    for (const socket of this.#open.splice(0)) socket.destroy()
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
    await this.#refuse(
      path,
      new Set([...text].filter(letter => !known.includes(letter) && !BLANK.test(letter))),
    )
  }

  async #refuse(path: string, unknown: ReadonlySet<string>): Promise<void> {
    if (unknown.size === 0) return
    const letters = [...unknown].slice(0, SHOWN_LETTERS).join('')
    const known = Object.keys(this.#letters).join(', ')
    this.#events.emit('fifo-ignored', { path, why: `expected one of ${known}, got ${letters}` })
    await sleep(PACE_MS)
  }
}

/** Makes it if it is missing. @throws SpooldError START_FAILED */
function openFifo(path: string): Socket {
  try {
    if (lstatSync(path, { throwIfNoEntry: false }) === undefined) makeFifo(path)
    return readerOf(path)
  } catch (error) {
    throw new SpooldError(
      'START_FAILED',
      `master-fifo ${path} cannot be used: ${messageOf(error)}; name another path, or remove what is there`,
      { cause: error },
    )
  }
}

/** Node has no mkfifo(2). It follows no link, and fails if the name is taken. */
function makeFifo(path: string): void {
  try {
    execFileSync('/bin/sh', ['-c', 'umask 077; exec mkfifo -- "$1"', 'sh', path], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
  } catch (error) {
    if (existsSync(path)) return // another daemon was faster
    const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : ''
    throw stderr === '' ? error : new Error(stderr)
  }
}

/**
 * The name may be exchanged at any time by the owner of its directory, so the file is held first, then checked, then
 * opened. Open for writing too, it never reaches its end when a writer leaves.
 */
function readerOf(path: string): Socket {
  const held = openSync(path, O_PATH | constants.O_NOFOLLOW)
  try {
    const { uid } = checkFifo(held)
    if (uid !== 0 && uid !== process.geteuid?.())
      throw new Error(`it belongs to uid ${uid}, who could command this daemon`)
    const fd = openSync(`/proc/self/fd/${held}`, constants.O_RDWR | constants.O_NONBLOCK)
    return new Socket({ fd, readable: true, writable: false })
  } finally {
    closeSync(held)
  }
}

function checkFifo(fd: number) {
  const stats = fstatSync(fd)
  if (!stats.isFIFO()) throw new Error('there is another file of this name, which is not a FIFO')
  return stats
}
