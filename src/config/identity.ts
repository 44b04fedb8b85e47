import { execFileSync } from 'node:child_process'

/** Node knows no getpwnam; `id` and `getent` do, with LDAP and whatever else the system is told to ask. */

/** A user's number, by name or number; undefined when there is no such user. */
export function findUser(user: string): number | undefined {
  return /^[0-9]+$/.test(user) ? Number(user) : ask('id', ['-u', '--', user])
}

/** A user's own group. */
export function findPrimaryGroup(user: string): number | undefined {
  return ask('id', ['-g', '--', user])
}

export function findGroup(group: string): number | undefined {
  return /^[0-9]+$/.test(group) ? Number(group) : ask('getent', ['group', group])
}

function ask(command: 'id' | 'getent', args: string[]): number | undefined {
  try {
    const text = execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
    const field = command === 'getent' ? (text.split(':')[2] ?? '') : text
    return /^[0-9]+$/.test(field) ? Number(field) : undefined
  } catch {
    return undefined
  }
}
