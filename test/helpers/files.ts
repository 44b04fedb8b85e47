import { type Dirent, existsSync, readdirSync, renameSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { errnoOf } from '#src/base/errors.js'
import { encodePacket } from '#src/formats/protocol/packet.js'

/** The bytes of a spool file. */
export function packet(vars: Readonly<Record<string, string | Buffer>>, body: Buffer | string = ''): Buffer {
  const pairs = Object.entries(vars).map(([key, value]) => [Buffer.from(key), Buffer.from(value)] as const)
  return Buffer.concat([encodePacket(pairs), Buffer.from(body)])
}

let count = 0

/** A name in uWSGI's form. Names sort in the order of the calls. */
export function taskName(): string {
  return `uwsgi_spoolfile_on_host_1_${++count}_1_1700000000_1`
}

/** Drops a file into a spool as other programs do: writes it next to the spool and renames it. @returns its path */
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

/** The files left in a spool, without `.spoold` and without finished tasks that are hidden for removal. */
export function leftIn(spool: string): string[] {
  if (!existsSync(spool)) return []
  return entriesIn(spool)
    .filter(entry => !entry.isDirectory())
    .map(entry => join(entry.parentPath ?? entry.path, entry.name).slice(spool.length + 1))
    .filter(path => !path.startsWith('.spoold/') && !path.includes('.spoold-done-'))
    .sort()
}

/** Returns all entries below a directory. If a daemon removes a directory of its own meanwhile, all are read again. */
function entriesIn(directory: string): Dirent[] {
  for (;;)
    try {
      return readdirSync(directory, { recursive: true, withFileTypes: true })
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT' || !existsSync(directory)) throw error
    }
}
