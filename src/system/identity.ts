import { execFileSync } from 'node:child_process'

/** Node knows no getpwnam; `id` and `getent` do, with LDAP and whatever else the system is told to ask. */

/** A user's number, by name or number; undefined when there is no such user. A number needs no name. */
export function findUser(user: string): number | undefined {
  return toNumber(isDigits(user) ? user : ask('id', ['-u', '--', user]))
}

/** A user's own group. */
export function findPrimaryGroup(user: string): number | undefined {
  return toNumber(ask('id', ['-g', '--', user]))
}

export function findGroup(group: string): number | undefined {
  return toNumber(isDigits(group) ? group : groupEntry(group)?.[2])
}

/** undefined for a number without a name. */
export function findGroupName(gid: number): string | undefined {
  return groupEntry(String(gid))?.[0]
}

/** name, password, number, members */
function groupEntry(group: string): string[] | undefined {
  return ask('getent', ['group', group])?.split(':')
}

function ask(command: 'id' | 'getent', args: string[]): string | undefined {
  try {
    return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return undefined
  }
}

/** The system takes 2^32 - 1 for "leave it as it is". */
function toNumber(text: string | undefined): number | undefined {
  return text !== undefined && isDigits(text) && Number(text) < 2 ** 32 - 1 ? Number(text) : undefined
}

function isDigits(text: string): boolean {
  return /^[0-9]+$/.test(text)
}
