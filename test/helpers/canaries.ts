import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { chmodSync, chownSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { packet } from './files.js'

/** An unprivileged user, who owns spools and tries to reach root's files. */
export const USER = 65_534

/** Root's files outside a spool, with the names of a spool's contents. Any change to one of them is detected. */
export class Canaries {
  readonly path: string
  readonly #before: readonly string[]

  constructor(path: string, names: readonly string[] = []) {
    this.path = path
    mkdirSync(path, { mode: 0o755 })
    for (const directory of ['records', 'dead', 'locks', 'ids', '7']) mkdirSync(join(path, directory))
    for (const name of ['victim', '7/victim', 'dead/victim', 'records/victim.json', ...names])
      writeFileSync(join(path, name), packet({ n: name }), { mode: 0o600 })
    chmodSync(path, 0o755)
    this.#before = this.#look()
  }

  /** Asserts that nothing was created, removed, written or given to another owner. */
  assertUntouched(what: string): void {
    assert.deepEqual(this.#look(), this.#before, what)
  }

  #look(): string[] {
    const paths = ['.', ...readdirSync(this.path, { recursive: true }).map(String).sort()]
    return paths.map(name => {
      const path = join(this.path, name)
      const { mode, uid, gid, ino, nlink, size, mtimeMs, ctimeMs } = lstatSync(path)
      const content = lstatSync(path).isFile()
        ? createHash('sha1').update(readFileSync(path)).digest('hex')
        : ''
      return [name, mode, uid, gid, ino, nlink, size, mtimeMs, ctimeMs, content].join(' ')
    })
  }
}

/** Gives a spool and everything in it to a user. */
export function giveAway(spool: string, uid: number = USER): void {
  chownSync(spool, uid, uid)
  for (const name of readdirSync(spool, { recursive: true })) chownLink(join(spool, String(name)), uid)
}

function chownLink(path: string, uid: number): void {
  if (!lstatSync(path).isSymbolicLink()) chownSync(path, uid, uid)
}
