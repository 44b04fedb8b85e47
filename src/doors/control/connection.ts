import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf } from '../../base/errors.js'
import { LineBuffer } from '../../engines/control/line-buffer.js'
import {
  ControlError,
  type ControlReply,
  type ControlRequest,
  formatReply,
  type Id,
  MAX_REQUEST_BYTES,
  parseRequest,
  type Role,
} from '../../formats/control/protocol.js'
import { type ActionTable, findAction } from './actions.js'

/** A request has to arrive within this time once it has begun. */
const REQUEST_MS = 5000
/** How long a client may stay without a request. */
const IDLE_MS = 120_000
/** A reply has to be taken within this time. */
const REPLY_MS = 10_000
/** The first requests of a connection are served at once, the others at this pace, so that no client keeps the master busy. */
const PROMPT_REQUESTS = 5
const PACE_MS = 50
/** A client of a stream that is this far behind is dropped, with a notice. */
const MAX_BEHIND_BYTES = 1024 * 1024
const PROBE_MS = 2000

/**
 * One client. At most one request is in progress, and nothing is read meanwhile, so what a connection holds is bounded: a
 * request, a reply, or a stream's backlog.
 *
 * States: idle → reading → acting → replying → idle …; or closing (the last reply is on its way); then closed.
 */
export class ControlConnection {
  readonly #socket: Socket
  readonly #role: Role
  readonly #actions: ActionTable
  readonly #asked: () => void
  readonly #lines = new LineBuffer(MAX_REQUEST_BYTES)
  #state: 'idle' | 'reading' | 'acting' | 'replying' | 'closing' | 'closed' = 'idle'
  #hasEnded = false
  #served = 0
  #timer: NodeJS.Timeout | undefined
  /**
   * Tells the request in progress that the client has gone. It is per request, so that what a request awaits ends with the
   * request, and not with the connection.
   */
  #lose = () => {}
  #gone = () => {}
  readonly whenGone = new Promise<void>(resolve => {
    this.#gone = resolve
  })

  /** @param asked called for each request */
  constructor(socket: Socket, role: Role, actions: ActionTable, asked: () => void) {
    this.#socket = socket
    this.#role = role
    this.#actions = actions
    this.#asked = asked
    socket.on('data', chunk => this.#hear(chunk))
    socket.on('end', () => this.#ended())
    socket.on('error', () => {}) // 'close' follows
    socket.on('close', () => this.#closed())
    this.#wait('idle', IDLE_MS)
    socket.resume()
  }

  close(): void {
    this.#socket.destroy()
  }

  #hear(chunk: Buffer): void {
    if (this.#state === 'closing') return
    this.#lines.add(chunk)
    if (this.#state === 'idle') this.#wait('reading', REQUEST_MS)
    if (this.#state === 'reading') void this.#serve()
    else this.#socket.pause()
  }

  /** Serves the requests that have arrived. */
  async #serve(): Promise<void> {
    for (let line = this.#lines.next(); line !== undefined; line = this.#lines.next()) {
      this.#wait('acting')
      this.#socket.pause()
      this.#asked()
      if (++this.#served > PROMPT_REQUESTS) await sleep(PACE_MS)
      const isServed = !this.#isClosed && (await this.#answer(line))
      if (this.#isClosed || !isServed) return
    }
    if (this.#hasEnded) return void this.#socket.end()
    if (!this.#lines.isPartial) this.#wait('idle', IDLE_MS)
    else if (this.#state !== 'reading') this.#wait('reading', REQUEST_MS) // one more byte gives a request no more time
    this.#socket.resume()
  }

  get #isClosed(): boolean {
    return this.#state === 'closed'
  }

  /** Answers one request. @returns false if the connection ends with the answer */
  async #answer(line: string | null): Promise<boolean> {
    let id: Id | null = null
    try {
      if (line === null)
        throw new ControlError('malformed', `a request has at most ${MAX_REQUEST_BYTES} bytes`)
      const request = parseRequest(line)
      id = request.id
      await this.#write(id, { ok: await this.#act(request) })
      return true
    } catch (error) {
      const code = error instanceof ControlError ? error.code : 'failed'
      const isLast = id === null || code === 'too-slow'
      const reply = formatReply(id, { error: { code, message: messageOf(error) } })
      if (isLast) {
        this.#wait('closing', REPLY_MS)
        this.#socket.end(reply)
        this.#socket.resume() // otherwise the end of the client would not be noticed
      } else await this.#writeText(reply)
      return !isLast
    }
  }

  async #act(request: ControlRequest): Promise<unknown> {
    const { id } = request
    let isTooSlow = false
    const action = findAction(this.#actions, request, this.#role)
    this.#socket.resume() // so that a client that goes is noticed; what it sends is heard after this request
    const whenGone = new Promise<void>(resolve => {
      this.#lose = resolve
    })
    const send = (event: unknown) => {
      if (this.#isClosed || isTooSlow) return false
      isTooSlow = this.#socket.writableLength > MAX_BEHIND_BYTES
      if (!isTooSlow) this.#socket.write(formatReply(id, { event }))
      return !isTooSlow
    }
    // a client that has ended its side may have gone, which only a write finds out
    const probe = setInterval(() => this.#hasEnded && send(null), PROBE_MS).unref()
    try {
      const call = { role: this.#role, send, whenTaken: () => this.#taken(''), whenGone }
      const result = await action.run(request.args as never, call)
      if (isTooSlow)
        throw new ControlError('too-slow', `this client was ${MAX_BEHIND_BYTES} bytes behind, and is dropped`)
      return result ?? null
    } finally {
      clearInterval(probe)
    }
  }

  #write(id: Id, reply: ControlReply): Promise<void> {
    return this.#writeText(formatReply(id, reply))
  }

  /** Resolves when the kernel has taken the text, or the connection is closed. */
  async #writeText(text: string): Promise<void> {
    if (this.#isClosed) return
    this.#wait('replying', REPLY_MS)
    await this.#taken(text)
  }

  async #taken(text: string): Promise<void> {
    if (!this.#isClosed) await new Promise(resolve => this.#socket.write(text, resolve))
  }

  #wait(state: 'idle' | 'reading' | 'acting' | 'replying' | 'closing', limitMs?: number): void {
    if (this.#isClosed) return
    clearTimeout(this.#timer)
    this.#state = state
    if (limitMs !== undefined) this.#timer = setTimeout(() => this.close(), limitMs).unref()
  }

  /** The client will send no more. Its request in progress is still answered. */
  #ended(): void {
    this.#hasEnded = true
    if (this.#state === 'idle' || this.#state === 'reading' || this.#state === 'closing') this.close()
  }

  #closed(): void {
    clearTimeout(this.#timer)
    this.#state = 'closed'
    this.#lose()
    this.#gone()
  }
}
