import { userInfo } from 'node:os'

let before: string | undefined

/** To be called before this process takes on another identity: afterwards, nobody knows. */
export function rememberCaller(): void {
  before = userName()
}

/** Who has typed the command, before sudo, or the command itself, made somebody else of it. */
export function caller(): string {
  const { SUDO_USER } = process.env
  return SUDO_USER !== undefined && SUDO_USER !== '' ? SUDO_USER : (before ?? userName())
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}` // it has no name
  }
}
