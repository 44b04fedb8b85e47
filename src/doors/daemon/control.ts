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
import { KeptOpen, type Open } from '../net/kept-open.js'
import { type ListenSettings, listen } from '../net/listen.js'

interface ControlContext {
  readonly events: Emitter
  readonly actions: ActionTable
  /** The identity that the daemon takes on; it owns the sockets. */
  readonly identity: Identity | null
  readonly files: ListenSettings['files']
  resolve(path: string): string
  /** Called when the socket of a spool was opened, and at each later look that finds it. */
  looked(spool: string): void
}

/** The kernel caps it at net.core.somaxconn. */
const BACKLOG = 4096

/**
 * The daemon's control sockets: one in each spool that it runs, and those of `spooler-control`. A socket that cannot be opened
 * is reported, and tasks run without it.
 */
export class DaemonControl {
  readonly #context: ControlContext
  readonly #inSpools: KeptOpen
  /** Closes the sockets of `spooler-control`. */
  readonly #closings: Array<() => Promise<void>> = []

  constructor(context: ControlContext) {
    this.#context = context
    this.#inSpools = new KeptOpen({
      open: spool => this.#listenIn(spool),
      missing: (spool, why) => this.#report(spool, why),
      looked: spool => context.looked(spool),
    })
  }

  /** Opens the sockets of `spooler-control`, with the privileges that the process has at its start. */
  async listen({ spoolerControl }: Options): Promise<void> {
    for (const text of spoolerControl) {
      const socket = parseControlSocket(text)
      if (socket === null) continue
      await this.#listenAt(socket).catch(error => this.#report(socket.path, messageOf(error)))
    }
  }

  /**
   * Opens a socket in each of these spools, also if somebody removed it, and closes the sockets in all others.
   *
   * @param spools real paths, and names on Redis: their sockets are in directories of this machine
   */
  serve({ spoolerControl }: Options, spools: readonly string[]): Promise<void> {
    const isOff = spoolerControl.some(text => parseControlSocket(text) === null)
    return this.#inSpools.serve(isOff ? [] : spools)
  }

  async close(): Promise<void> {
    await this.#inSpools.close()
    for (const close of this.#closings.splice(0)) await close()
  }

  async #listenIn(spool: string): Promise<Open> {
    const server = new ControlServer('operator', this.#context.actions)
    const home = isRedisAddress(spool) ? makeControlHome(spool) : undefined
    const socket = await listenInSpool(home ?? spool, (each, listening) => server.accept(each, listening))
    return {
      isReachable: () => socket.isReachable(),
      async close() {
        server.close()
        await socket.close()
        if (home !== undefined) await removeControlHome(home)
      },
    }
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
      await listener.removeFile().catch(() => false) // root made the file, and we are no longer root: the next start replaces it
    })
  }

  #report(place: string, error: string): void {
    this.#context.events.emit('control-unavailable', { place, error })
  }
}
