import type { ServerOverview, ServerStatus } from '../server-facts.js'
import type { Connection } from './connection.js'
import { linesOf, pairsOf } from './facts.js'
import { readMembers } from './membership.js'
import { RedisUpkeep } from './upkeep.js'
import { lookAt, type SpoolView, statsFrom, sumOf } from './view.js'

/** Returns what a spool holds and who runs it, as Redis knows it. It changes nothing, and reads a bounded number of tasks. */
export async function overviewOf(connection: Connection): Promise<ServerOverview> {
  const view = await lookAt(connection)
  const [upkeep, members, server] = await Promise.all([
    new RedisUpkeep(connection).stats(),
    readMembers(connection),
    serverOf(connection),
  ])
  const held = sumOf(view, 'held')
  const retrying = upkeep.records.count
  return {
    atMs: view.nowMs,
    tasks: {
      ...statsFrom(view),
      ...{ due: sumOf(view, 'due'), retrying, held },
      running: view.queues.reduce((sum, { active }) => sum + active, 0),
      waiting: Math.max(0, sumOf(view, 'later') - held - retrying),
    },
    upkeep,
    server: { members, limits: limitsIn(view), ...server },
  }
}

function limitsIn({ queues }: SpoolView): ServerStatus['limits'] {
  return queues.flatMap(({ task: name, limit: count, active: running, due }) =>
    name === undefined || count === undefined ? [] : [{ name, count, running, due }],
  )
}

/** Returns what the server says of itself; null for what it does not tell this user of an ACL. */
async function serverOf(connection: Connection): Promise<Omit<ServerStatus, 'members' | 'limits'>> {
  const { redis } = connection
  const key = connection.key('meta') // in a cluster, the node that has the spool is asked
  const [, info, config] = await connection.use(
    async () => (await redis.pipeline().exists(key).info().config('GET', 'append*').exec()) ?? [],
  )
  const told = linesOf(info?.[0] == null ? String(info?.[1] ?? '') : '')
  const number = (name: string) => (told.has(name) ? Number(told.get(name)) : null)
  const settings = pairsOf(config?.[0] == null ? config?.[1] : undefined)
  const appends = settings.get('appendonly')
  return {
    ...{ version: told.get('redis_version') ?? null, role: told.get('role') ?? null },
    ...{ usedBytes: number('used_memory'), maxBytes: number('maxmemory') },
    appends: appends === undefined ? null : appends === 'yes',
    syncs: settings.get('appendfsync') ?? null,
  }
}
