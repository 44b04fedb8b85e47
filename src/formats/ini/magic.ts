import { lstatSync, realpathSync } from 'node:fs'
import { availableParallelism, hostname, userInfo } from 'node:os'
import { findGroupName } from '../../system/identity.js'

/** A line of text, and its number in the file. */
export interface NumberedLine {
  readonly number: number
  readonly text: string
}

/** The letters that describe the current file; their capitals describe the first file. */
const OF_A_FILE = 'opdsnecxij'

/**
 * The magic variables `%x` (core/uwsgi.c, config_magic_table_fill). As in uWSGI there is one table, which each file changes. A
 * source without a file name, such as `:section`, keeps the letters of the file before it.
 */
export class Magic {
  readonly #letters: Map<string, string | (() => string)>

  constructor(version: string) {
    const nowMs = Date.now()
    this.#letters = new Map<string, string | (() => string)>([
      ['%', '%'],
      ['(', '%('],
      ['[', '\u001b'],
      ['v', process.cwd()],
      ['h', hostname()],
      ['t', String(Math.floor(nowMs / 1000))],
      ['T', String(nowMs * 1000)],
      ['V', version],
      ['k', String(availableParallelism())],
      ['u', String(process.getuid?.() ?? 0)],
      ['U', userName],
      ['g', String(process.getgid?.() ?? 0)],
      ['G', groupName],
      ['b', process.argv[1] ?? ''],
    ])
    for (const letter of OF_A_FILE) {
      this.#letters.set(letter, '')
      this.#letters.set(letter.toUpperCase(), '')
    }
    for (const letter of '0123456789') this.#letters.set(letter, '')
  }

  has(letter: string): boolean {
    return this.#letters.has(letter)
  }

  /**
   * Makes the letters refer to this file from now on.
   *
   * @param named its name as given, '' if only a section was
   * @param isFirst true if the capitals refer to it, too
   * @throws Error if there is no such file
   */
  enter(named: string, section: string, isFirst: boolean): void {
    this.#letters.set('o', named)
    if (named === '-') return
    if (named !== '') for (const [letter, text] of lettersOf(named)) this.#letters.set(letter, text)
    this.#letters.set('x', section)
    if (!isFirst) return
    for (const letter of OF_A_FILE) this.#letters.set(letter.toUpperCase(), this.#textOf(letter))
  }

  /**
   * Replaces every `%` and the character after it, in comments too; unknown letters are removed. At the end of a line that
   * character is the line feed, so the next line is joined to this one.
   */
  *expand(text: string): Generator<NumberedLine> {
    const lines = text.split('\n')
    let joined = ''
    let number = 1
    for (const [i, line] of lines.entries()) {
      let isOpen = false
      joined += line.replace(/%(.?)/gsu, (_, letter: string) => {
        if (letter === '') isOpen = true
        return this.#textOf(letter)
      })
      if (isOpen && i + 1 < lines.length) continue
      yield { number, text: joined }
      joined = ''
      number = i + 2
    }
  }

  #textOf(letter: string): string {
    const text = this.#letters.get(letter) ?? ''
    return typeof text === 'string' ? text : text()
  }
}

function* lettersOf(named: string): Generator<[string, string]> {
  const path = pathOf(named)
  const cut = path.lastIndexOf('/')
  const directory = path.slice(0, cut)
  const name = path.slice(cut + 1)
  const dot = name.lastIndexOf('.')
  yield ['p', path]
  yield ['d', `${directory}/`]
  yield ['s', name]
  yield ['n', dot < 0 ? name : name.slice(0, dot)]
  yield ['e', dot < 0 ? '' : name.slice(dot + 1)]
  yield ['c', directory.slice(directory.lastIndexOf('/') + 1)]
  yield ['i', String(lstatSync(path).ino)]
  yield ['j', hash(path)]
  const parts = directory.split('/').filter(Boolean)
  for (let i = 0; i < 10; i++) yield [String(i), parts[i] ?? '']
}

/** Returns the path of a file as uWSGI has it: a link is neither resolved nor normalized. */
function pathOf(named: string): string {
  const isLink = lstatSync(named, { throwIfNoEntry: false })?.isSymbolicLink() ?? false
  if (!isLink) return realpathSync(named)
  return named.startsWith('/') ? named : `${process.cwd()}/${named}`
}

function groupName(): string {
  const gid = process.getgid?.() ?? 0
  return findGroupName(gid) ?? String(gid)
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.() ?? 0) // the uid has no name
  }
}

/** Returns djb33x over the path, as 8 upper-case hex digits of its little-endian bytes. */
function hash(path: string): string {
  let value = 5381
  for (const byte of Buffer.from(path)) value = (Math.imul(value, 33) ^ byte) >>> 0
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes.toString('hex').toUpperCase()
}
