import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

/** The result of a visitor's last act, for the next page. */
export interface Notice {
  readonly isGood: boolean
  readonly text: string
}

interface Session {
  /** The hash of the token that the visitor logged in with. */
  readonly tokenHash: string
  /** The end of the session, in terms of `performance.now()`. */
  readonly untilMs: number
}

const ID_BYTES = 32
const LASTS_MS = 12 * 3600 * 1000
/** A token has no more sessions than this. A further one ends the oldest of the same token, so nobody else is logged out. */
const MOST_PER_TOKEN = 20
const MOST_NOTICES = 1000

/**
 * What is remembered of browsers, by the id in their cookie. It is lost when the process ends: visitors log in again. Every
 * browser has an id, for forms; only an id that was given for a token has a session.
 */
export class Sessions {
  readonly #key = randomBytes(ID_BYTES)
  readonly #sessions = new Map<string, Session>()
  /** The ids of the sessions of each token, the oldest first. Tokens that the file no longer has may still be here. */
  readonly #ofToken = new Map<string, Set<string>>()
  readonly #notices = new Map<string, Notice>()

  newId(): string {
    return randomBytes(ID_BYTES).toString('base64url')
  }

  /** Begins a session. @returns its id, which is new: somebody else may know the id that the browser had before */
  begin(tokenHash: string): string {
    const id = this.newId()
    const ids = this.#ofToken.get(tokenHash) ?? new Set()
    const [oldest] = ids
    if (ids.size >= MOST_PER_TOKEN && oldest !== undefined) this.end(oldest)
    this.#ofToken.set(tokenHash, ids.add(id))
    this.#sessions.set(id, { tokenHash, untilMs: performance.now() + LASTS_MS })
    return id
  }

  end(id: string): void {
    const { tokenHash = '' } = this.#sessions.get(id) ?? {}
    const ids = this.#ofToken.get(tokenHash)
    this.#sessions.delete(id)
    if (ids?.delete(id) === true && ids.size === 0) this.#ofToken.delete(tokenHash)
  }

  tokenHashOf(id: string): string | undefined {
    const session = this.#sessions.get(id)
    if (session === undefined || performance.now() < session.untilMs) return session?.tokenHash
    this.end(id)
    return undefined
  }

  /** Returns the value that forms carry, so that no other site can make one. @param whose the visitor, as `whoseOf` says */
  csrfOf(id: string, whose: string): string {
    return createHmac('sha256', this.#key).update(`${id} ${whose}`).digest('base64url')
  }

  isCsrf(text: string, id: string, whose: string): boolean {
    const [got, right] = [Buffer.from(text), Buffer.from(this.csrfOf(id, whose))]
    return got.length === right.length && timingSafeEqual(got, right)
  }

  tell(id: string, notice: Notice): void {
    const [oldest] = this.#notices.keys()
    if (this.#notices.size >= MOST_NOTICES && oldest !== undefined) this.#notices.delete(oldest)
    this.#notices.set(id, notice)
  }

  /** Returns the notice for a browser, and forgets it. */
  takeNotice(id: string): Notice | undefined {
    const notice = this.#notices.get(id)
    this.#notices.delete(id)
    return notice
  }
}
