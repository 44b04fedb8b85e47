import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { TestProcess } from './process.js'
import { BIN, workspace } from './workspace.js'

/** The calls that change a file system. Writes and syncs of new files are left out: a kill before the rename leaves the same. */
const CHANGES =
  'pwrite64,rename,renameat,renameat2,unlink,unlinkat,linkat,utimensat,fchmod,mkdir,mkdirat,rmdir,symlink'
/** Matches a call on the spool: by its path, or below a directory of the spool that is held open. */
const IN_SPOOL = /\/spool|\/proc\/self\/fd\//

/** One system call of a command: its name, and its number among the calls of that name, from 1. */
interface Change {
  readonly name: string
  readonly nth: number
}

async function strace(expressions: readonly string[], args: readonly string[], log: string) {
  const flags = ['-f', '--seccomp-bpf', '-qq', '-y', '-o', log, ...expressions.flatMap(each => ['-e', each])]
  const command = new TestProcess('strace', [...flags, process.execPath, BIN, ...args])
  return { ...(await command.exited), output: command.output }
}

/** Returns all changes of a command, in order, except those of the files with which it probes the file system. */
async function changesOf(args: readonly string[], log: string): Promise<Change[]> {
  const { code, output } = await strace([`trace=${CHANGES}`], args, log)
  assert.equal(code, 0, output)
  const counts = new Map<string, number>()
  const changes: Change[] = []
  for (const line of readFileSync(log, 'utf8').split('\n')) {
    const [, name = ''] = /^\d+ +(\w+)\(/.exec(line) ?? []
    const nth = (counts.get(name) ?? 0) + 1
    counts.set(name, nth)
    if (name !== '' && IN_SPOOL.test(line) && !line.includes('/probe-')) changes.push({ name, nth })
  }
  return changes
}

/** Returns the name of a call without `at`: the call that takes a directory does the same. */
const plain = (name: string) => name.replace(/^(rename|unlink|link|mkdir)at2?$/, '$1')

export interface Scene {
  readonly args: readonly string[]
  check(when: string): Promise<void>
}

/**
 * Kills a command before each of its changes of files, each time in spools of their own.
 *
 * @param steps calls that the command must make, in this order, so that a kill before each of them is tested
 */
export async function killEverywhere(steps: readonly string[], prepare: () => Promise<Scene>): Promise<void> {
  const log = join(workspace(), 'strace')
  const first = await prepare()
  const changes = await changesOf(first.args, log)
  await first.check('not killed')
  const left = [...steps]
  for (const { name } of changes) if (plain(name) === left[0]) left.shift()
  assert.deepEqual(left, [], `of ${steps}, among ${changes.map(({ name }) => name)}`)
  for (const { name, nth } of changes) {
    const { args, check } = await prepare()
    const { code, signal } = await strace([`inject=${name}:signal=SIGKILL:when=${nth}`], args, log)
    assert.ok(signal === 'SIGKILL' || code === 137, `${name} ${nth}: ${code} ${signal}`)
    await check(`killed before ${name} number ${nth}`)
  }
}
