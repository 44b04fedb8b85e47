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
/** Each replaces the oldest one. */
const MOST = 1000

/**
 * What is remembered of browsers, by an id in a cookie. It ends with the process: who had a token shows it again. Everybody has
 * an id, for forms; only one that came with a token is a session.
 */
export class Sessions {
  readonly #key = randomBytes(ID_BYTES)
  readonly #sessions = new Map<string, Session>()
  readonly #notices = new Map<string, Notice>()

  newId(): string {
    return randomBytes(ID_BYTES).toString('base64url')
  }

  /** @returns the id of a new session: one that was known before may be somebody else's */
  begin(tokenHash: string): string {
    const id = this.newId()
    keep(this.#sessions, id, { tokenHash, untilMs: performance.now() + LASTS_MS })
    return id
  }

  end(id: string): void {
    this.#sessions.delete(id)
  }

  tokenHashOf(id: string): string | undefined {
    const session = this.#sessions.get(id)
    return session !== undefined && performance.now() < session.untilMs ? session.tokenHash : undefined
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
    keep(this.#notices, id, notice)
  }

  /** Once. */
  takeNotice(id: string): Notice | undefined {
    const notice = this.#notices.get(id)
    this.#notices.delete(id)
    return notice
  }
}

function keep<T>(map: Map<string, T>, id: string, value: T): void {
  const [oldest] = map.keys()
  if (map.size >= MOST && oldest !== undefined) map.delete(oldest)
  map.set(id, value)
}
