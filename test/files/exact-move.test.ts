import assert from 'node:assert/strict'
import {
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, it } from 'node:test'
import { OK } from '#src/base/task/outcome.js'
import { createTaskName } from '#src/engines/spool/names.js'
import { CWD } from '#src/system/calls.js'
import { isStillThere, moveExactly } from '#src/system/files/exact-move.js'
import { systemCalls } from '#src/system/libc.js'
import { beginOf, openEngine } from '../helpers/engine.js'
import { drop, leftIn } from '../helpers/files.js'
import { errnoError, hookFs } from '../helpers/fs-hooks.js'
import { spoolDirectory } from '../helpers/workspace.js'

let unhook = () => {}
const opened: number[] = []
afterEach(() => {
  unhook()
  for (const fd of opened.splice(0)) closeSync(fd)
})

/** Returns the place of a path, from the working directory. */
const at = (name: string) => ({ directory: CWD, name })

function setUp() {
  const spool = spoolDirectory()
  const [path, to] = [join(spool, 'task'), join(spool, '.elsewhere')]
  writeFileSync(path, 'ran')
  const fd = openSync(path, 'r')
  opened.push(fd)
  const file = { ...at(path), fd }
  /** Writes another file beside the task, and renames it to the name of the task. */
  const replace = (text: string) => {
    writeFileSync(`${path}.new`, text)
    renameSync(`${path}.new`, path)
  }
  return { spool, path, to, file, replace }
}

/** Performs each act in the last moment before a rename: the first before the first rename, and so on. */
function beforeRenames(...acts: Array<() => void>): void {
  let isActing = false // an act may be a rename, too
  unhook = hookFs(['renameSync'], (_name, _args, proceed) => {
    if (isActing) return proceed()
    isActing = true
    acts.shift()?.()
    isActing = false
    return proceed()
  })
}

describe('the file that is held', () => {
  it('is moved', () => {
    const { spool, to, file } = setUp()
    assert.equal(moveExactly(file, at(to), createTaskName), true)
    assert.equal(readFileSync(to, 'utf8'), 'ran')
    assert.deepEqual(leftIn(spool), ['.elsewhere'])
  })

  it('is not moved when it is gone, or when something else has its name', () => {
    const { spool, path, to, file, replace } = setUp()
    replace('another')
    assert.equal(moveExactly(file, at(to), createTaskName), false)
    renameSync(path, join(spool, 'away'))
    assert.equal(moveExactly(file, at(to), createTaskName), false)
    symlinkSync('away', path)
    assert.equal(moveExactly(file, at(to), createTaskName), false)
    assert.deepEqual(leftIn(spool), ['away', 'task'])
  })

  it('is not confused with a file that takes its name in the last moment', () => {
    const { spool, path, to, file, replace } = setUp()
    beforeRenames(() => replace('another'))
    assert.equal(moveExactly(file, at(to), createTaskName), false)
    assert.equal(readFileSync(path, 'utf8'), 'another')
    assert.deepEqual(leftIn(spool), ['task'])
  })

  it('is not moved when it leaves in the last moment', () => {
    const { spool, path, to, file } = setUp()
    beforeRenames(() => renameSync(path, join(spool, 'away')))
    assert.equal(moveExactly(file, at(to), createTaskName), false)
    assert.deepEqual(leftIn(spool), ['away'])
  })

  it('leaves both other files in the spool when its name is taken twice in the last moment', () => {
    const { spool, path, to, file, replace } = setUp()
    beforeRenames(
      () => replace('second'),
      () => writeFileSync(path, 'third'),
    )
    assert.equal(moveExactly(file, at(to), createTaskName), false)
    const texts = readdirSync(spool).map(name => readFileSync(join(spool, name), 'utf8'))
    assert.deepEqual(texts.sort(), ['second', 'third'])
    assert.ok(readdirSync(spool).every(name => !name.startsWith('.')))
  })

  it('is known by its whole inode, even if inodes are larger than a number can tell apart', () => {
    const { path, to, file, replace } = setUp()
    const inodes: Record<string, number> = { [file.fd]: 0, [path]: 1, [to]: 1 }
    replace('another')
    unhook = hookFs(['lstatSync', 'fstatSync'], (_name, [of], proceed) =>
      Object.assign(proceed() as object, { inodeHigh: 2 ** 21, inodeLow: inodes[String(of)] }),
    )
    const held = systemCalls().status(file.fd)
    assert.equal(held.inode, 2n ** 53n)
    assert.equal(isStillThere(file, held), false)
    assert.equal(moveExactly(file, at(to), createTaskName), false)
    assert.equal(readFileSync(path, 'utf8'), 'another')
  })

  it('is removed even if there is no room for another name', async () => {
    const spool = spoolDirectory()
    drop(spool, 'report')
    const engine = await openEngine(spool)
    const claim = beginOf(engine, 'report')
    unhook = hookFs(['renameSync'], (name, args) => {
      throw errnoError('ENOSPC', name, args[0])
    })
    assert.equal(engine.settle(claim, OK, 5).kind, 'ok')
    assert.deepEqual(leftIn(spool), [])
  })
})
