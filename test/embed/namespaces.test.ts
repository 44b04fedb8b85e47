import assert from 'node:assert/strict'
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { Spoold, TaskBatch, Tasks } from '#src/index.js'
import { spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const opened: Spoold[] = []

after(async () => {
  for (const app of opened) await app.stop({ mercyMs: 0 })
})

/** A spool, and modules of tasks for it that write `WHO TASK ARGUMENT` for each run. */
function setUp() {
  const spool = spoolDirectory()
  const journal = join(dirname(spool), 'said')
  appendFileSync(journal, '')
  const said = () => readFileSync(journal, 'utf8').split('\n').filter(Boolean)
  const moduleOf = (who: string, tasks: string) => {
    const file = join(dirname(spool), `${who}.mjs`)
    writeFileSync(
      file,
      `import { appendFileSync } from 'node:fs'
      import { currentTask, events, Tasks } from 'spoold'
      const say = line => appendFileSync(${JSON.stringify(journal)}, '${who} ' + line + '\\n')
      const ran = n => say(currentTask().name + ' ' + n)
      ${tasks}`,
    )
    return file
  }
  const open = (namespace: string, tasks: string) => {
    const app = new Spoold({ spooler: spool, sync: false, namespace, tasks: moduleOf(namespace, tasks) })
    opened.push(app)
    return app
  }
  return { spool, said, moduleOf, open }
}

const WORK = `export const tasks = new Tasks({ maxRetries: 1 })
  tasks.task('work', { maxConcurrency: 1 }, n => ran(n))
  tasks.task('spread', n => tasks.schedule('work', n))`

describe('applications with namespaces in one spool', () => {
  for (const mode of ['in-process', 'threads', 'processes'] as const)
    it(`run no tasks of each other, in ${mode}, not even those that tasks schedule`, async () => {
      const { spool, said, open } = setUp()
      const [production, staging] = [open('production', WORK), open('staging', WORK)]
      await Promise.all([production.start({ mode }), staging.start({ mode })])
      for (let n = 0; n < 20; n++) {
        const scheduled = await production.schedule('work', n)
        assert.equal(scheduled.name, 'work')
        await staging.schedule('staging:work', n) // its whole name
        await staging.schedule('spread', n + 20)
      }
      await until('all tasks have run', () => leftIn(spool).length === 0)
      const runs = (who: string, from: number, to: number) =>
        Array.from({ length: to - from }, (_, i) => `${who} work ${i + from}`)
      const expected = [...runs('production', 0, 20), ...runs('staging', 0, 40)]
      assert.deepEqual(said().sort(), expected.sort())
      await Promise.all([production.stop(), staging.stop()])
      await staging.schedule('work', 99)
      const { stdout } = await spoold(['ls', '--json', '--task', 'staging:work', spool])
      assert.equal(JSON.parse(stdout).task.name, 'staging:work')
      assert.equal((await spoold(['ls', '--json', '--task', 'work', spool])).stdout, '')
    })

  it('schedule their periodic tasks beside each other', async () => {
    const { said, open } = setUp()
    const tick = `export const tasks = new Tasks()
      tasks.task('tick', { periodicity: 1 }, () => ran(''))`
    const apps = [open('production', tick), open('staging', tick)]
    for (const app of apps) await app.start()
    await until('both periodic tasks have run twice', () =>
      ['production tick ', 'staging tick '].every(line => said().filter(each => each === line).length >= 2),
    )
  })
})

describe('a registry with a namespace', () => {
  it('runs in a daemon beside others with tasks of the same name, and has its own events', async () => {
    const { spool, said, moduleOf } = setUp()
    const file = moduleOf(
      'daemon',
      `export const [plain, shop, blog] = [{}, { namespace: 'shop' }, { namespace: 'blog' }].map(each => new Tasks(each))
      for (const tasks of [plain, shop, blog])
        tasks.task('work', n => { say((tasks === shop ? 'shop ' : tasks === blog ? 'blog ' : '') + currentTask().name + ' ' + n) })
      events.on('task-finished', ({ namespace, task }) => say('ended ' + namespace + ' ' + task.name))
      events.on('task-finished', () => say('heard'), { namespace: 'blog' })`,
    )
    const daemon = await startDaemon({ spool, isForeign: true, ini: { 'spooler-import': file } })
    const app = new Spoold({ spooler: spool, sync: false, tasks: file })
    for (const [i, name] of ['work', 'shop:work', 'blog:work'].entries()) await app.schedule(name, i)
    await until('all runs and events are reported', () => said().length === 7)
    assert.deepEqual(
      said().sort(),
      [
        ...['work 0', 'shop work 1', 'blog work 2', 'heard'],
        ...['ended default work', 'ended shop work', 'ended blog work'],
      ]
        .map(line => `daemon ${line}`)
        .sort(),
    )
    await daemon.waitFor(/done with task \S+ \(shop:work\)/)
  })

  const named = (namespace?: string) => {
    const tasks = new Tasks(namespace === undefined ? {} : { namespace })
    return { tasks, work: tasks.task('work', (_n: number) => {}) }
  }

  it('is one of an application, which finds its own tasks by short names and others by whole names', async () => {
    const [shop, blog] = [named('shop'), named('blog')]
    const app = new Spoold({ spooler: 'memory:', namespace: 'blog', tasks: [shop.tasks, blog.tasks] })
    const names = async (task: string) => (await app.schedule(task, 1)).name
    assert.deepEqual(
      [await names('work'), await names('blog:work'), await names('shop:work')],
      ['work', 'work', 'work'],
    )
    await app.scheduleBatch(new TaskBatch().schedule(shop.work, 1).schedule('shop:work', 1))
    await assert.rejects(app.schedule('no', 1), /expected one of shop:work, work, got "no"/)
  })

  it('refuses a second task of the same whole name, whatever gives the namespace', () => {
    const [shop, other] = [named('shop'), named()]
    shop.tasks.use(named('blog').tasks)
    assert.throws(() => shop.tasks.use(other.tasks), /two tasks are named shop:work: one at .*, one at /)
    assert.throws(
      () => new Spoold({ spooler: 'memory:', namespace: 'x', tasks: [named().tasks, named('x').tasks] }),
      /two tasks are named x:work/,
    )
    new Tasks().use(other.tasks) // what was refused has changed nothing
    const outer = new Tasks().use(other.tasks, named('y').tasks)
    assert.throws(
      () => new Spoold({ spooler: 'memory:', namespace: 'y', tasks: outer }),
      /two tasks are named y:work/,
    )
    assert.throws(() => new Tasks({ namespace: '_x' }), /namespace must be 1 to 200 bytes .* got "_x"/)
    const options: object = { namespace: 'x' }
    assert.throws(() => new Tasks().task('a', options, () => {}), /there is no option namespace/)
  })
})
