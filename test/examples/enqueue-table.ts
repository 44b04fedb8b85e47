import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { FIXTURES, workspace } from '../helpers/workspace.js'

/** Bytes as the table writes them; docs/spool-format.md has the notation. */
type Notation = string | { hex?: string; text?: string; times?: number } | readonly Notation[]

interface RowFile {
  readonly name: string
  readonly dictionary: ReadonlyArray<readonly [Notation, Notation]>
  readonly at?: string
  readonly priority?: string
  readonly body?: Notation
}

/** What a writer is asked to store. */
export interface Row {
  readonly name: string
  readonly dictionary: ReadonlyArray<readonly [key: Buffer, value: Buffer]>
  readonly at?: string
  readonly priority?: string
  readonly body?: Buffer
}

export interface StoredRow extends Row {
  readonly bytes: Buffer
  readonly mode: number
  /** Epoch seconds; null where it is the time of writing. */
  readonly mtime: number | null
  /** Below the spool. */
  readonly directory: string
}

interface RefusedRow extends Row {
  /** What the message has to contain. */
  readonly names: string
  /** Only for writers that take `at` as text. */
  readonly textual: boolean
}

interface StoredFile extends RowFile {
  readonly expect: { packet: Notation; mode: string; mtime: number | null; directory: string }
}

interface RefusedFile extends RowFile {
  readonly names: string
  readonly textual?: boolean
}

const read = (name: string) => JSON.parse(readFileSync(join(FIXTURES, name), 'utf8'))

export function storedRows(): StoredRow[] {
  const rows: StoredFile[] = read('enqueue/stored.json')
  return rows.map(row => ({
    ...rowOf(row),
    bytes: Buffer.concat([bytesOf(row.expect.packet), bytesOf(row.body ?? '')]),
    mode: Number.parseInt(row.expect.mode, 8),
    mtime: row.expect.mtime,
    directory: row.expect.directory,
  }))
}

export function refusedRows(): RefusedRow[] {
  const rows: RefusedFile[] = read('enqueue/refused.json')
  return rows.map(row => ({ ...rowOf(row), names: row.names, textual: row.textual ?? false }))
}

interface GoldenFile {
  readonly file: string
  readonly mode: string
  readonly mtime: number
  /** Keys in latin1, values in base64. */
  readonly asked: Readonly<Record<string, string>>
}

/** Returns what uWSGI itself wrote of random dictionaries that have `at` and `priority` last, as the writers do. */
export function goldenRows(): StoredRow[] {
  const directory = workspace()
  execFileSync('tar', ['-xf', join(FIXTURES, 'golden/spool.tar'), '-C', directory])
  const files: GoldenFile[] = read('golden/asked.json')
  return files.flatMap(({ file, mode, mtime, asked }) => {
    const { at, priority, body, ...rest } = asked
    const inOrder = [
      ...Object.keys(rest),
      ...('at' in asked ? ['at'] : []),
      ...('priority' in asked ? ['priority'] : []),
    ]
    if (`${Object.keys(asked).filter(key => key !== 'body')}` !== `${inOrder}`) return []
    const text = (base64: string) => Buffer.from(base64, 'base64').toString()
    return {
      name: `golden ${file}`,
      dictionary: Object.entries(rest).map(
        ([key, value]) => [Buffer.from(key, 'latin1'), Buffer.from(value, 'base64')] as const,
      ),
      ...(at === undefined ? {} : { at: text(at) }),
      ...(priority === undefined ? {} : { priority: text(priority) }),
      ...(body === undefined ? {} : { body: Buffer.from(body, 'base64') }),
      bytes: readFileSync(join(directory, 'spool', file)),
      mode: Number(mode),
      mtime: at === undefined ? null : mtime,
      directory: priority === undefined ? '.' : text(priority),
    }
  })
}

export const hasNul = ({ dictionary }: Row) => dictionary.flat().some(bytes => bytes.includes(0))

/** Returns the dictionary that a handler gets, and its body, in one line. The handlers of the test write the same. */
export function receivedLine({ dictionary, at, priority, body = Buffer.alloc(0) }: Row): string {
  const pairs = dictionary.map(([key, value]) => `${key.toString('hex')}=${value.toString('hex')}`)
  const magic = Object.entries({ at, priority }).flatMap(([key, value]) =>
    value === undefined ? [] : [`${Buffer.from(key).toString('hex')}=${Buffer.from(value).toString('hex')}`],
  )
  const digest = createHash('sha256').update(body).digest('hex')
  return `${[...pairs, ...magic].sort().join(' ')} ${digest}`
}

function rowOf({ name, dictionary, at, priority, body }: RowFile): Row {
  return {
    name,
    dictionary: dictionary.map(([key, value]) => [bytesOf(key), bytesOf(value)] as const),
    ...(at === undefined ? {} : { at }),
    ...(priority === undefined ? {} : { priority }),
    ...(body === undefined ? {} : { body: bytesOf(body) }),
  }
}

function bytesOf(notation: Notation): Buffer {
  if (typeof notation === 'string') return Buffer.from(notation)
  if (isList(notation)) return Buffer.concat(notation.map(bytesOf))
  const { hex, text = '', times = 1 } = notation
  const once = hex === undefined ? Buffer.from(text) : Buffer.from(hex, 'hex')
  return Buffer.alloc(once.length * times, once)
}

function isList(notation: Notation): notation is readonly Notation[] {
  return Array.isArray(notation)
}
