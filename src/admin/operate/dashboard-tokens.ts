import { createHash, randomBytes } from 'node:crypto'
import { ROLES, type Role } from '../../base/task/roles.js'
import { nameFault } from '../../formats/protocol/named.js'

/** One line of the file of `spooler-dashboard-tokens`: `alice operator+payload 9f86d0…`. */
export interface Token {
  /** The name of the token's owner, for the audit. */
  readonly name: string
  readonly role: Role
  readonly mayReadPayload: boolean
  /** SHA-256 of the token, in hex. A token has 256 random bits, so nobody finds it by its hash. */
  readonly hash: string
}

const TOKEN_BYTES = 32
const PAYLOAD = '+payload'

/** @throws Error that names the line */
export function parseTokens(text: string): Token[] {
  const lines = text.split('\n').map((line, i) => ({ number: i + 1, words: line.trim().split(/\s+/) }))
  return lines
    .filter(({ words: [first = ''] }) => first !== '' && !first.startsWith('#'))
    .map(({ number, words }) => {
      const token = words.length === 3 ? tokenOf(words) : undefined
      if (token === undefined)
        throw new Error(
          `line ${number}: expected NAME ${ROLES.join('|')}[${PAYLOAD}] SHA256, as spoold token writes it`,
        )
      return token
    })
}

function tokenOf([name = '', right = '', hash = '']: readonly string[]): Token | undefined {
  const mayReadPayload = right.endsWith(PAYLOAD)
  const word = mayReadPayload ? right.slice(0, -PAYLOAD.length) : right
  const role = ROLES.find(each => each === word)
  const isRight = nameFault(name) === undefined && /^[0-9a-f]{64}$/.test(hash)
  return role === undefined || !isRight ? undefined : { name, role, mayReadPayload, hash }
}

/** Makes a new token, and the line that lets in whoever has the token. */
export function makeToken(whose: Omit<Token, 'hash'>): { readonly token: string; readonly line: string } {
  const token = randomBytes(TOKEN_BYTES).toString('base64url')
  const hash = createHash('sha256').update(token).digest('hex')
  return { token, line: `${whose.name} ${whose.role}${whose.mayReadPayload ? PAYLOAD : ''} ${hash}\n` }
}
