import { createHash, timingSafeEqual } from 'node:crypto'
import { parseTokens, type Token } from '../../../admin/operate/dashboard-tokens.js'
import { messageOf } from '../../../base/errors.js'
import { privateText } from '../../../system/private-file.js'

const MAX_BYTES = 64 * 1024
/** The mode bits that the file must not have: only its owner may read or write it. */
const OTHERS = 0o077
/** The file is read at most once in this time, however many requests come. A removed token is refused after this time. */
const SHARED_MS = 1000

/** The tokens of `spooler-dashboard-tokens`. */
export class Tokens {
  readonly #path: string
  readonly #trouble: (message: string) => void
  /** The last reported fault of the file, so that each fault is reported once. Empty while there is none. */
  #fault = ''
  #read: { readonly tokens: Promise<readonly Token[]>; readonly untilMs: number } | undefined

  /** @param trouble gets what is wrong with the file: no token is accepted meanwhile */
  constructor(path: string, trouble: (message: string) => void) {
    this.#path = path
    this.#trouble = trouble
  }

  /** Returns the hash of a token that the file has; undefined for any other text. The comparison takes as long for each text. */
  async hashOf(text: string): Promise<string | undefined> {
    const hash = createHash('sha256').update(text).digest()
    let found: string | undefined
    for (const token of await this.#all())
      if (timingSafeEqual(Buffer.from(token.hash, 'hex'), hash)) found = token.hash
    return found
  }

  /** Returns the token with this hash, as long as the file has it. */
  async withHash(hash: string): Promise<Token | undefined> {
    return (await this.#all()).find(token => token.hash === hash)
  }

  #all(): Promise<readonly Token[]> {
    if (this.#read === undefined || performance.now() >= this.#read.untilMs)
      this.#read = { tokens: this.#load(), untilMs: performance.now() + SHARED_MS }
    return this.#read.tokens
  }

  async #load(): Promise<readonly Token[]> {
    try {
      const tokens = parseTokens(await privateText(this.#path, { maxBytes: MAX_BYTES, closedTo: OTHERS }))
      this.#fault = ''
      return tokens
    } catch (error) {
      const fault = messageOf(error)
      if (fault !== this.#fault) this.#trouble(`no token is accepted: ${fault}`)
      this.#fault = fault
      return []
    }
  }
}
