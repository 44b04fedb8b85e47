import { existsSync, readdirSync, renameSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { encodePacket } from '#src/protocol/packet.js'

/** The bytes of a spool file. */
export function packet(vars: Readonly<Record<string, string | Buffer>>, body: Buffer | string = ''): Buffer {
  const pairs = Object.entries(vars).map(([key, value]) => [Buffer.from(key), Buffer.from(value)] as const)
  return Buffer.concat([encodePacket(pairs), Buffer.from(body)])
}

let count = 0

/** A name as uWSGI makes them; in the order of the calls. */
export function taskName(): string {
  return `uwsgi_spoolfile_on_host_1_${++count}_1_1700000000_1`
}

/** Drops a file into a spool as other programs do: written beside it, renamed in. @returns its path */
export function drop(
  spool: string,
  name: string = taskName(),
  bytes: Buffer | string = packet({ name }),
  mtimeSeconds?: number,
): string {
  const hidden = join(dirname(spool), `.dropping-${process.pid}-${++count}`)
  writeFileSync(hidden, bytes, { mode: 0o600 })
  if (mtimeSeconds !== undefined) utimesSync(hidden, mtimeSeconds, mtimeSeconds)
  const path = join(spool, name)
  renameSync(hidden, path)
  return path
}

/** The files in a spool that are not ours: what is left to run. What is hidden to be removed is done. */
export function leftIn(spool: string): string[] {
  if (!existsSync(spool)) return []
  return readdirSync(spool, { recursive: true, withFileTypes: true })
    .filter(entry => !entry.isDirectory())
    .map(entry => join(entry.parentPath ?? entry.path, entry.name).slice(spool.length + 1))
    .filter(path => !path.startsWith('.spoold/') && !path.includes('.spoold-done-'))
    .sort()
}
