import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { TestProcess } from './process.js'
import { BIN, workspace } from './workspace.js'

/** What changes a file system. What a kill before a write or a sync of a new file leaves, a kill before its rename does. */
const CHANGES =
  'pwrite64,rename,renameat,renameat2,unlink,unlinkat,linkat,utimensat,fchmod,mkdir,mkdirat,rmdir,symlink'
/** By its path, or below a directory of it that is held open. */
const IN_SPOOL = /\/spool|\/proc\/self\/fd\//

/** One system call of a command: its name, and which of that name it is. */
interface Change {
  readonly name: string
  readonly nth: number
}

async function strace(expressions: readonly string[], args: readonly string[], log: string) {
  const flags = ['-f', '--seccomp-bpf', '-qq', '-y', '-o', log, ...expressions.flatMap(each => ['-e', each])]
  const command = new TestProcess('strace', [...flags, process.execPath, BIN, ...args])
  return { ...(await command.exited), output: command.output }
}

/** All that a command changes, in its order; the files with which it tries the file system out apart. */
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

/** A call that takes a directory, too, does the same. */
const plain = (name: string) => name.replace(/^(rename|unlink|link|mkdir)at2?$/, '$1')

export interface Scene {
  readonly args: readonly string[]
  check(when: string): Promise<void>
}

/**
 * Kills a command before each of its changes of files, each time in spools of their own.
 *
 * @param steps what it cannot do without, in this order: each of them is seen, and killed
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
