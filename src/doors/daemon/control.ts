import { messageOf } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import { makeControlHome, removeControlHome } from '../../engines/control/home.js'
import type { Options } from '../../formats/config/option-table.js'
import { type ControlSocketOption, parseControlSocket } from '../../formats/control/option.js'
import { isRedisAddress } from '../../formats/protocol/redis-address.js'
import type { Identity } from '../../system/privileges.js'
import type { ActionTable } from '../control/actions.js'
import { ControlServer } from '../control/server.js'
import { listenInSpool } from '../control/spool-socket.js'
import { type ListenSettings, listen } from '../net/listen.js'

interface ControlContext {
  readonly events: Emitter
  readonly actions: ActionTable
  /** The identity that the daemon takes on, which owns the sockets. */
  readonly identity: Identity | null
  readonly files: ListenSettings['files']
  resolve(path: string): string
  /** The socket of a spool is there: when it was opened, and at each look after that. */
  looked(spool: string): void
}

interface Open {
  isReachable(): Promise<boolean>
  close(): Promise<void>
}

/** The kernel caps it at net.core.somaxconn. */
const BACKLOG = 4096
/** How long a socket that somebody removed is missing, at most. */
const LOOK_MS = 5000

/**
 * The daemon's control sockets: one in each spool that it runs, and those of `spooler-control`. A socket that cannot be opened
 * is reported, and tasks run without it.
 */
export class DaemonControl {
  readonly #context: ControlContext
  readonly #inSpools = new Map<string, Open>()
  #isLooking = false
  readonly #watch = setInterval(() => void this.#return(), LOOK_MS).unref()
  #wanted: ReadonlySet<string> = new Set()
  /** Why a spool has no socket, as the log has it. */
  readonly #missing = new Map<string, string>()
  /** Openings take turns: a reload may come while a removed socket is opened again. */
  #turn = Promise.resolve()
  /** What closes the sockets of `spooler-control`. */
  readonly #closings: Array<() => Promise<void>> = []

  constructor(context: ControlContext) {
    this.#context = context
  }

  /** Opens the sockets of `spooler-control`, with the privileges that the process has at its start. */
  async listen({ spoolerControl }: Options): Promise<void> {
    for (const text of spoolerControl) {
      const socket = parseControlSocket(text)
      if (socket === null) continue
      const why = await faultOf(() => this.#listenAt(socket))
      if (why !== undefined) this.#report(socket.path, why)
    }
  }

  /**
   * Opens a socket in each of these spools, also where somebody removed it, and closes those in others.
   *
   * @param spools real paths, and names on Redis: their sockets are in directories of this machine
   */
  serve({ spoolerControl }: Options, spools: readonly string[]): Promise<void> {
    const isOff = spoolerControl.some(text => parseControlSocket(text) === null)
    this.#wanted = new Set(isOff ? [] : spools)
    this.#missing.clear() // a reload says again what is wrong
    return this.#open()
  }

  /** Opens again what somebody removed, and what could not be opened: a full disk has room again. */
  async #return(): Promise<void> {
    if (this.#isLooking) return // at a disk that stalls
    this.#isLooking = true
    const wanted = [...this.#wanted]
    const areThere = await Promise.all(wanted.map(spool => this.#inSpools.get(spool)?.isReachable() ?? false))
    this.#isLooking = false
    for (const [i, spool] of wanted.entries())
      if (areThere[i] === true && this.#wanted.has(spool)) this.#context.looked(spool)
    if (areThere.includes(false)) await this.#open()
  }

  #open(): Promise<void> {
    this.#turn = this.#turn.then(async () => {
      for (const [spool, open] of this.#inSpools)
        if (!this.#wanted.has(spool) || !(await open.isReachable())) {
          this.#inSpools.delete(spool)
          await open.close()
        }
      for (const spool of this.#wanted) {
        if (this.#inSpools.has(spool)) continue
        const why = await faultOf(() => this.#listenIn(spool))
        if (why === undefined) {
          this.#missing.delete(spool)
          this.#context.looked(spool)
        } else if (this.#missing.get(spool) !== why) {
          this.#missing.set(spool, why)
          this.#report(spool, why)
        }
      }
    })
    return this.#turn
  }

  async close(): Promise<void> {
    clearInterval(this.#watch)
    this.#wanted = new Set()
    await this.#turn
    await Promise.all([...this.#inSpools.values()].map(open => open.close()))
    this.#inSpools.clear()
    for (const close of this.#closings.splice(0)) await close()
  }

  async #listenIn(spool: string): Promise<void> {
    const server = new ControlServer('operator', this.#context.actions)
    const home = isRedisAddress(spool) ? makeControlHome(spool) : undefined
    const socket = await listenInSpool(home ?? spool, (each, listening) => server.accept(each, listening))
    this.#inSpools.set(spool, {
      isReachable: () => socket.isReachable(),
      async close() {
        server.close()
        socket.close()
        if (home !== undefined) await removeControlHome(home)
      },
    })
  }

  async #listenAt({ path, role, mode }: ControlSocketOption): Promise<void> {
    const { actions, identity, files } = this.#context
    const server = new ControlServer(role, actions)
    const listener = await listen(
      { kind: 'unix', path: this.#context.resolve(path) },
      {
        backlog: BACKLOG,
        mode,
        owner: identity,
        files,
        accept: (socket, listening) => server.accept(socket, listening),
      },
    )
    this.#closings.push(async () => {
      server.close()
      listener.close()
      await listener.removeFile().catch(() => false) // root made it, and we are no longer root: the next start replaces it
    })
  }

  #report(place: string, error: string): void {
    this.#context.events.emit('control-unavailable', { place, error })
  }
}

/** @returns why it failed; undefined: it did not */
async function faultOf(open: () => Promise<void>): Promise<string | undefined> {
  try {
    await open()
    return undefined
  } catch (error) {
    return messageOf(error)
  }
}
