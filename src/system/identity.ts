import { execFileSync } from 'node:child_process'

/** Node has no getpwnam. `id` and `getent` do the look-up, including LDAP and any other configured source. */

/** A user's number, given a name or a number; undefined if there is no such user. A number need not have a name. */
export function findUser(user: string): number | undefined {
  return toNumber(isDigits(user) ? user : ask('id', ['-u', '--', user]))
}

/** undefined if the number has no name. */
export function findUserName(uid: number): string | undefined {
  return ask('getent', ['passwd', String(uid)])?.split(':')[0]
}

/** A user's primary group. */
export function findPrimaryGroup(user: string): number | undefined {
  return toNumber(ask('id', ['-g', '--', user]))
}

export function findGroup(group: string): number | undefined {
  return toNumber(isDigits(group) ? group : groupEntry(group)?.[2])
}

/** undefined if the number has no name. */
export function findGroupName(gid: number): string | undefined {
  return groupEntry(String(gid))?.[0]
}

/** The fields name, password, number and members. */
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

/** 2^32 - 1 is excluded: setuid and setgid take it for "leave unchanged". */
function toNumber(text: string | undefined): number | undefined {
  return text !== undefined && isDigits(text) && Number(text) < 2 ** 32 - 1 ? Number(text) : undefined
}

function isDigits(text: string): boolean {
  return /^[0-9]+$/.test(text)
}
