import { userInfo } from 'node:os'

let before: string | undefined

/** Remembers the user of this process. Call it before the process takes on another identity, because nobody knows afterwards. */
export function rememberCaller(): void {
  before = userName()
}

/** Returns the user who typed the command, even if sudo, or the command itself, has changed the identity since. */
export function caller(): string {
  const { SUDO_USER } = process.env
  return SUDO_USER !== undefined && SUDO_USER !== '' ? SUDO_USER : (before ?? userName())
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}` // the user has no name
  }
}
