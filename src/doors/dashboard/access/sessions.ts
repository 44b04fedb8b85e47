import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

/** What the last act of a visitor led to, for the next page. */
export interface Notice {
  readonly isGood: boolean
  readonly text: string
}

interface Session {
  /** Of the token that was shown. */
  readonly tokenHash: string
  /** In terms of `performance.now()`. */
  readonly untilMs: number
}

const ID_BYTES = 32
const LASTS_MS = 12 * 3600 * 1000
/** Sessions of one token, each of which replaces the oldest of that token: whoever logs in often logs nobody else out. */
const MOST_PER_TOKEN = 20
const MOST_NOTICES = 1000

/**
 * What is remembered of browsers, by an id in a cookie. It ends with the process: who had a token shows it again. Everybody has
 * an id, for forms; only one that came with a token is a session.
 */
export class Sessions {
  readonly #key = randomBytes(ID_BYTES)
  readonly #sessions = new Map<string, Session>()
  /** The ids of each token, the oldest first. As many tokens as the file has, and those that it had. */
  readonly #ofToken = new Map<string, Set<string>>()
  readonly #notices = new Map<string, Notice>()

  newId(): string {
    return randomBytes(ID_BYTES).toString('base64url')
  }

  /** @returns the id of a new session: one that was known before may be somebody else's */
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

  /** What forms carry, so that no other site can make one. @param whose name and role of the visitor */
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

  /** Once. */
  takeNotice(id: string): Notice | undefined {
    const notice = this.#notices.get(id)
    this.#notices.delete(id)
    return notice
  }
}
