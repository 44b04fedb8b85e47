import { lstatSync, realpathSync } from 'node:fs'
import { availableParallelism, hostname, userInfo } from 'node:os'
import { basename, dirname, extname, isAbsolute, join, resolve } from 'node:path'

/** The `%x` of one file: a letter and what stands for it. Letters that are not in it stand for nothing. */
export type MagicTable = ReadonlyMap<string, string>

/** The letters that an included file keeps from the first one. */
const FIRST_FILE = 'opdsnecxij'

/**
 * The magic variables of a configuration file (core/uwsgi.c, config_magic_table_fill). `first` is the table of the
 * first file named with --ini; its values stand under the upper-case letters.
 */
export function magicTable(
  file: string,
  section: string,
  first: MagicTable | undefined,
  version: string,
): MagicTable {
  const path = isLink(file)
    ? isAbsolute(file)
      ? file
      : join(process.cwd(), file)
    : realpathSync(resolve(file))
  const directory = `${dirname(path)}/`.replace('//', '/')
  const name = basename(path)
  const extension = extname(name).slice(1)
  const table = new Map([
    ['%', '%'],
    ['(', '%('],
    ['p', path],
    ['o', file],
    ['d', directory],
    ['s', name],
    ['n', extension === '' ? name : name.slice(0, -extension.length - 1)],
    ['e', extension],
    ['c', basename(directory)],
    ['x', section],
    ['i', String(lstatSync(path).ino)],
    ['j', hash(path)],
    ['v', process.cwd()],
    ['h', hostname()],
    ['t', String(Math.floor(Date.now() / 1000))],
    ['T', String(Date.now() * 1000)],
    ['V', version],
    ['k', String(availableParallelism())],
    ['u', String(process.getuid?.() ?? 0)],
    ['U', userName()],
    ['g', String(process.getgid?.() ?? 0)],
    ['G', userName()],
    ['b', process.argv[1] ?? ''],
    ['[', '\u001b'],
  ])
  for (const [i, part] of directory.split('/').filter(Boolean).slice(0, 10).entries())
    table.set(String(i), part)
  for (const letter of FIRST_FILE) table.set(letter.toUpperCase(), first?.get(letter) ?? '')
  return table
}

/** Replaces every `%` and the character behind it, also in comments; a `%` at the very end stays. */
export function expandMagic(text: string, table: MagicTable): string {
  return text.replace(/%([\s\S])/g, (_, letter: string) => table.get(letter) ?? '')
}

/** The table as the first file's own: what it says of itself under capital letters too. */
export function asFirst(table: MagicTable): MagicTable {
  const first = new Map(table)
  for (const letter of FIRST_FILE) first.set(letter.toUpperCase(), table.get(letter) ?? '')
  return first
}

function isLink(file: string): boolean {
  return lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink() ?? false
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.() ?? 0) // a uid without a name
  }
}

/** djb33x over the path, as 8 upper-case hex digits of its little-endian bytes. */
function hash(path: string): string {
  let value = 5381
  for (const byte of Buffer.from(path)) value = (Math.imul(value, 33) ^ byte) >>> 0
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes.toString('hex').toUpperCase()
}
