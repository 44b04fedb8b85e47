import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { leftIn } from '../helpers/files.js'
import { ROOT, spoolDirectory, workspace } from '../helpers/workspace.js'

const INDEX = join(ROOT, 'dist/index.js')

/** Runs a module in a directory of its own, and parses what it prints. */
function outputOf(text: string, directory = workspace()): unknown {
  writeFileSync(join(directory, 'main.mjs'), text)
  return JSON.parse(execFileSync(process.execPath, ['main.mjs'], { cwd: directory, encoding: 'utf8' }))
}

describe('importing spoold', () => {
  it('creates no timer, file, handle or listener', () => {
    const directory = workspace()
    const seen = `({
      resources: process.getActiveResourcesInfo(),
      listeners: process.eventNames().map(name => [String(name), process.listenerCount(name)]),
      descriptors: readdirSync('/proc/self/fd').length,
      cwd: process.cwd(),
      title: process.title,
      umask: process.umask(),
    })`
    const [before, after, defined] = outputOf(
      `import { readdirSync } from 'node:fs'
      import { createRequire } from 'node:module'
      createRequire(import.meta.url) // what loads anything is there before
      const before = ${seen}
      const { Tasks, Spoold } = await import(${JSON.stringify(INDEX)})
      const after = ${seen}
      const tasks = new Tasks({ queue: 'mail' })
      tasks.task('noop', () => {})
      new Spoold({ queues: { mail: 'spool' }, tasks })
      new Spoold({ spooler: 'memory:', tasks: './tasks.js', logger: console })
      console.log(JSON.stringify([before, after, ${seen}]))`,
      directory,
    ) as [object, object, object]
    assert.deepEqual(after, before)
    assert.deepEqual(defined, before)
    assert.deepEqual(readdirSync(directory), ['main.mjs'])
  })

  it('from two copies of the package lets their tasks work together, and both see the same daemon', () => {
    const directory = workspace()
    const copy = join(directory, 'copy')
    for (const part of ['dist', 'package.json'])
      cpSync(join(ROOT, part), join(copy, part), { recursive: true })
    symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
    const spool = spoolDirectory()
    const result = outputOf(
      `import { Spoold, Tasks, TaskBatch, currentTask } from ${JSON.stringify(INDEX)}
      import * as other from ${JSON.stringify(join(copy, 'dist/index.js'))}
      const ours = new Tasks()
      const theirs = new other.Tasks({ maxRetries: 3 })
      const task = theirs.task('theirs', (a) => a)
      ours.task('ours', () => {})
      ours.use(theirs)
      const app = new Spoold({ spooler: ${JSON.stringify(spool)}, sync: false, tasks: ours })
      let clash = ''
      try { theirs.task('ours', () => {}) } catch (error) { clash = error.code }
      const scheduled = [await task.schedule(1), await app.schedule('theirs', 2), await app.schedule(task, 3)]
      await theirs.scheduleBatch(new TaskBatch().schedule(task, 4))
      globalThis[Symbol.for('spoold.daemon.1')] = { current: () => 'the daemon' }
      const isOther = other.Tasks !== Tasks
      console.log(JSON.stringify([isOther, clash, scheduled.map(({ maxRetries }) => maxRetries), currentTask(), other.currentTask()]))`,
    )
    assert.deepEqual(result, [true, 'TASK_INVALID', [3, 3, 3], 'the daemon', 'the daemon'])
    assert.equal(leftIn(spool).length, 4)
  })
})
