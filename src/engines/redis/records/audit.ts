import { hasFields } from '../../../base/json-guard.js'
import type { AuditEntry } from '../../spool/admin/audit.js'
import type { Connection } from '../connection.js'

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
  const value: unknown = JSON.parse(line)
  const isEntry = hasFields(value, { at: 'time', who: 'text', role: 'text', action: 'text' }, {})
  return isEntry ? [value as AuditEntry] : []
}
