import { type AuditEntry, isAuditEntry } from '../../spool/admin/audit.js'
import type { Connection } from '../connection.js'
import { jsonIn } from '../task-job.js'

/** So many entries are kept. */
const KEPT = 10_000

export async function writeAudit(connection: Connection, entry: AuditEntry): Promise<void> {
  const { redis } = connection
  const key = connection.key('spoold:audit')
  await connection.use(() => redis.lpush(key, JSON.stringify(entry)))
  await connection.use(() => redis.ltrim(key, 0, KEPT - 1))
}

/** The newest first. */
export async function readAudit(connection: Connection, most: number): Promise<AuditEntry[]> {
  const { redis } = connection
  const lines = await connection.use(() => redis.lrange(connection.key('spoold:audit'), 0, most - 1))
  return lines.flatMap(parsed)
}

function parsed(line: string): AuditEntry[] {
  const value = jsonIn(line)
  return isAuditEntry(value) ? [value] : []
}
