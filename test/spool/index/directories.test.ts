import assert from 'node:assert/strict'
import { mkdirSync, renameSync, rmSync, statSync, symlinkSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Emitter } from '#src/base/events/emitter.js'
import { Scanner } from '#src/engines/spool/index/scanner.js'
import { TaskIndex } from '#src/engines/spool/index/task-index.js'
import { drop } from '../../helpers/files.js'
import { hookFs } from '../../helpers/fs-hooks.js'
import { until } from '../../helpers/until.js'
import { spoolDirectory } from '../../helpers/workspace.js'

const FREQUENCY_MS = 100

/** Starts a scanner without events, which finds tasks by its passes alone. */
async function scannerOf(spool: string, windowSize = 1000) {
  const index = new TaskIndex({ order: 'name', frequencyMs: FREQUENCY_MS, windowSize })
  const options = { spool, rules: { ordered: true, strictNames: false }, frequencyMs: FREQUENCY_MS }
  const scanner = new Scanner({ ...options, watch: 'off' }, index, new Emitter(), () => {})
  await scanner.start()
  return { scanner, index }
}

/** Waits until the directories are so old that their stamps prove something. */
async function aged(...paths: string[]): Promise<void> {
  for (const path of paths) await until(`${path} is old`, () => Date.now() - statSync(path).ctimeMs > 2500)
}

/** Called with each path that is listed. Listing throws what they throw. */
const listeners = new Set<(path: string) => void>()
let unhook = () => {}
before(() => {
  unhook = hookFs(['readdirSync'], (_call, [path], proceed) => {
    for (const listed of listeners) listed(String(path))
    return proceed()
  })
})
after(() => unhook())

const passes = (count: number) => new Promise(resolve => setTimeout(resolve, count * FREQUENCY_MS))

describe('the directories of a spool', { concurrency: true }, () => {
  it('are not listed again when tasks come in others', async () => {
    const spool = spoolDirectory()
    for (let i = 0; i < 300; i++) mkdirSync(join(spool, String(i)))
    mkdirSync(join(spool, '7/3'))
    await aged(join(spool, '299'), join(spool, '7'), spool)
    const { scanner, index } = await scannerOf(spool)
    const listed = new Set<string>()
    const record = (path: string) => path.startsWith(spool) && listed.add(path.slice(spool.length))
    listeners.add(record)
    try {
      drop(spool, '250/of-one')
      drop(spool, '7/3/of-a-lower-one')
      await until('both are found', () => index.ready === 2)
      mkdirSync(join(spool, '400'))
      drop(spool, '400/of-a-new-one')
      await until('the third is found', () => index.ready === 3)
    } finally {
      listeners.delete(record)
      scanner.close()
    }
    assert.deepEqual([...listed].sort(), ['', '/250', '/400', '/7/3'])
    assert.deepEqual(index.take(9), ['7/3/of-a-lower-one', '250/of-one', '400/of-a-new-one'])
  })

  it('keep the refs found in them, each once and in order, while others are listed', async () => {
    const spool = spoolDirectory()
    for (const priority of ['3', '5', '9']) mkdirSync(join(spool, priority))
    for (const name of ['3/a', '3/b', '5/a', '9/a', '9/b']) drop(spool, name)
    await aged(join(spool, '3'), join(spool, '5'), join(spool, '9'), spool)
    const { scanner, index } = await scannerOf(spool)
    assert.equal(index.ready, 5)
    rmSync(join(spool, '5/a'))
    drop(spool, '5/b')
    drop(spool, 'beside')
    await until('the new tasks are found', () => index.ready === 6)
    scanner.close()
    assert.deepEqual(index.take(9), ['3/a', '3/b', '5/b', '9/a', '9/b', 'beside'])
  })

  it('lose no task if they hold more tasks than the window', async () => {
    const spool = spoolDirectory()
    for (const priority of ['3', '5']) mkdirSync(join(spool, priority))
    for (let i = 0; i < 9; i++) drop(spool, `5/${i}`)
    await aged(join(spool, '3'), join(spool, '5'), spool)
    const { scanner, index } = await scannerOf(spool, 4)
    drop(spool, '3/urgent')
    const given = new Set<string>()
    await until('all are found', () => {
      for (const ref of index.take(1)) {
        given.add(ref)
        rmSync(join(spool, ref))
        index.returned({ ref, kind: 'ok', ranMs: 0 }, Date.now())
        scanner.tasksEnded(1, false)
      }
      return given.size === 10
    })
    scanner.close()
  })

  it('are listed again, though unchanged, for tasks that had no room in the window', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    for (let i = 0; i < 9; i++) drop(spool, `5/${i}`)
    await aged(join(spool, '5'), spool)
    const { scanner, index } = await scannerOf(spool, 4)
    const given = new Set<string>() // on a slow machine a look at what waits gives some of them again
    await until('all are given', () => {
      for (const ref of index.take(1)) {
        given.add(ref)
        index.returned({ ref, kind: 'later', ranMs: 0, atMs: Date.now() + 1e9 }, Date.now())
        scanner.tasksEnded(1, false)
      }
      return given.size === 9
    })
    scanner.close()
    assert.deepEqual(
      [...given],
      [...Array(9).keys()].map(i => `5/${i}`),
    )
  })

  it('are listed, though unchanged, for a look at later tasks', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    const path = drop(spool, '5/later')
    await aged(join(spool, '5'), spool)
    const { scanner, index } = await scannerOf(spool)
    for (const ref of index.take(9))
      index.returned({ ref, kind: 'later', ranMs: 0, atMs: Date.now() + 1e9 }, Date.now())
    utimesSync(path, 0, 0) // changes the file alone
    scanner.scanNow()
    await until('the task is found', () => index.ready === 1)
    scanner.close()
  })

  it('are listed after somebody set their times back, as rsync -t, tar and cp -p do', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    const long = new Date(Date.now() - 86_400_000)
    utimesSync(join(spool, '5'), long, long)
    await aged(join(spool, '5'), spool)
    const { scanner, index } = await scannerOf(spool)
    drop(spool, '5/restored')
    utimesSync(join(spool, '5'), long, long)
    await until('the task is found', () => index.ready === 1)
    scanner.close()
  })

  for (const [exchange, how] of [
    [
      'replaced with a symbolic link',
      (spool: string, outside: string) => symlinkSync(outside, join(spool, '5')),
    ],
    [
      'replaced with a symbolic link to themselves',
      (spool: string) => symlinkSync(join(spool, '../moved'), join(spool, '5')),
    ],
    ['moved away', () => {}],
  ] as const)
    it(`are no longer entered once they are ${exchange}`, async () => {
      const spool = spoolDirectory()
      const [outside, moved] = [join(spool, '../outside'), join(spool, '../moved')]
      for (const directory of [join(spool, '5'), join(spool, '5/1'), outside, join(outside, '1')])
        mkdirSync(directory)
      drop(spool, '5/inside')
      drop(spool, '5/1/inside')
      await aged(join(spool, '5'), join(spool, '5/1'), spool)
      const { scanner, index } = await scannerOf(spool)
      assert.equal(index.ready, 2)
      renameSync(join(spool, '5'), moved)
      how(spool, outside)
      for (const directory of [outside, moved]) for (const name of ['task', '1/task']) drop(directory, name)
      await until('what was inside is forgotten', () => index.ready === 0)
      await passes(5)
      assert.equal(index.ready, 0)
      rmSync(join(spool, '5'), { force: true })
      mkdirSync(join(spool, '5'))
      drop(spool, '5/again')
      await until('a directory is entered again', () => index.ready === 1)
      scanner.close()
    })

  it('are tried again if they could not be listed', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    drop(spool, '5/task')
    const fail = (path: string) => {
      if (path === join(spool, '5')) throw Object.assign(new Error('EIO: injected'), { code: 'EIO' })
    }
    listeners.add(fail)
    const { scanner, index } = await scannerOf(spool)
    await aged(join(spool, '5'), spool)
    await passes(3)
    assert.equal(index.ready, 0)
    listeners.delete(fail)
    await until('the task is found', () => index.ready === 1)
    scanner.close()
  })
})
