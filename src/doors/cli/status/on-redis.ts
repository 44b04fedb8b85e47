import type { MemberFacts } from '../../../base/task/member.js'
import type { ServerStatus } from '../../../engines/server-facts.js'
import { bytes } from './rows.js'

/** More are only counted. */
const MOST = 16

/** What only a spool on Redis has, by label, for people. */
export function* redisRows(redis: ServerStatus): Generator<[label: string, parts: readonly string[]]> {
  yield ['redis', [versionOf(redis), memoryOf(redis), persistenceOf(redis)].filter(part => part !== '')]
  yield ['run by', cut(redis.members, memberText)]
  if (redis.limits.length > 0) yield ['limits', cut(redis.limits, limitText)]
}

function versionOf({ version, role }: ServerStatus): string {
  const is = version === null ? 'it does not tell this user what it is' : `version ${version}`
  return role === null || role === 'master' ? is : `${is}, a ${role}`
}

function memoryOf({ usedBytes, maxBytes }: ServerStatus): string {
  if (usedBytes === null) return ''
  return maxBytes === null || maxBytes === 0
    ? `${bytes(usedBytes)} used`
    : `${bytes(usedBytes)} of ${bytes(maxBytes)} used`
}

function persistenceOf({ appends, syncs }: ServerStatus): string {
  if (appends === null) return ''
  return appends ? `appendfsync ${syncs ?? ''}` : 'appendonly is off'
}

function memberText({ host, pid, isDaemon, present, wanted, running, isHalted }: MemberFacts): string {
  const what = isDaemon ? 'daemon' : 'program'
  const halted = isHalted ? ', starts nothing' : ''
  return `${what} ${pid} on ${host} (${present} of ${wanted} workers, ${running} running${halted})`
}

function limitText({ name, count, running, due }: ServerStatus['limits'][number]): string {
  return `${name}: ${running} of ${count} run, ${due} due`
}

function cut<T>(all: readonly T[], text: (each: T) => string): string[] {
  const shown = all.slice(0, MOST).map(text)
  if (shown.length === 0) return ['none that has said so lately']
  return all.length > MOST ? [...shown, `and ${all.length - MOST} more`] : shown
}
