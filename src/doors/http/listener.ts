import type { Socket } from 'node:net'
import { messageOf } from '../../base/errors.js'
import { formatAddress, parseAddress } from '../../formats/protocol/address.js'
import { Opener } from '../../system/opener.js'
import { type Listener as Listening, listen } from '../net/listen.js'

export interface ListenerOptions {
  /** The address as the option has it: host:port, /path/to/socket or @abstract. */
  readonly address: string
  /** The mode of a unix socket; null: as the umask has it. */
  readonly mode: number | null
}

interface ListenerContext {
  accept(socket: Socket): void
  listening(address: string): void
  trouble(message: string): void
}

/** How long to wait before the next attempt: another program on the address, such as a uWSGI with the same ini, may leave it. */
const RETRY_MS = 5000
const BACKLOG = 128

/** Listens, and tries again as long as that fails, because what is published here is no reason to keep tasks waiting. */
export class RetriedListener {
  readonly #options: ListenerOptions
  readonly #context: ListenerContext
  #listening: Listening | undefined
  #timer: NodeJS.Timeout | undefined
  #isTroubled = false
  #isClosed = false

  constructor(options: ListenerOptions, context: ListenerContext) {
    this.#options = options
    this.#context = context
    void this.#open()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#listening?.close()
    await this.#listening?.removeFile()
  }

  async #open(): Promise<void> {
    const { address, mode } = this.#options
    const { accept, listening, trouble } = this.#context
    try {
      const settings = { backlog: BACKLOG, mode, owner: null, files: new Opener(null), accept }
      const opened = await listen(parseAddress(address), settings)
      this.#listening = opened
      if (this.#isClosed) return void (await this.close())
      listening(formatAddress(opened.address))
    } catch (error) {
      if (!this.#isTroubled) trouble(messageOf(error))
      this.#isTroubled = true
      if (!this.#isClosed) this.#timer = setTimeout(() => void this.#open(), RETRY_MS)
    }
  }
}
