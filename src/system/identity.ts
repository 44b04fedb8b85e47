import { readFileSync } from 'node:fs'
import { onDemand } from '../base/on-demand.js'

const processes = onDemand<typeof import('node:child_process')>('node:child_process')

/** Node has no getpwnam. `id` and `getent` do the look-up, including LDAP and any other configured source. */

/**
 * The environment of the start: a configuration may set PATH to a directory of the daemon's user, and root runs nothing from
 * there.
 */
const SURROUNDINGS = { ...process.env }

/** Returns a user's number, given a name or a number; undefined if there is no such user. A number need not have a name. */
export function findUser(user: string): number | undefined {
  return toNumber(isDigits(user) ? user : ask('id', ['-u', '--', user]))
}

/** Returns a user's name; undefined if the number has no name. */
export function findUserName(uid: number): string | undefined {
  return ask('getent', ['passwd', String(uid)])?.split(':')[0]
}

/** A user's primary group. */
export function findPrimaryGroup(user: string): number | undefined {
  return toNumber(ask('id', ['-g', '--', user]))
}

/** All of a user's groups, the primary one first; undefined if the user has no name. */
export function findGroupsOf(uid: number): readonly number[] | undefined {
  const text = ask('id', ['-G', '--', String(uid)])
  return text?.split(' ').flatMap(each => toNumber(each) ?? [])
}

export function findGroup(group: string): number | undefined {
  return toNumber(isDigits(group) ? group : groupEntry(group)?.[2])
}

/** Returns a group's name; undefined if the number has no name. */
export function findGroupName(gid: number): string | undefined {
  return groupEntry(String(gid))?.[0]
}

/** The fields name, password, number and members. */
function groupEntry(group: string): string[] | undefined {
  return ask('getent', ['group', group])?.split(':')
}

function ask(command: 'id' | 'getent', args: string[]): string | undefined {
  try {
    const text = processes().execFileSync(command, args, {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      env: SURROUNDINGS,
    })
    return text.trim()
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

let mapped: ReadonlyArray<readonly [first: number, count: number]> | undefined

/** Returns true if a user has a number in the user namespace of this process. */
export function isMapped(uid: number): boolean {
  mapped ??= readMap()
  return mapped.some(([first, count]) => uid >= first && uid < first + count)
}

function readMap(): ReadonlyArray<readonly [number, number]> {
  try {
    const lines = readFileSync('/proc/self/uid_map', 'utf8').trim().split('\n')
    return lines.map(line => {
      const [first = 0, , count = 0] = line.trim().split(/\s+/).map(Number)
      return [first, count]
    })
  } catch {
    return [[0, 2 ** 32]] // no Linux
  }
}
