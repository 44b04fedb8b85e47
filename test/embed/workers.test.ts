import assert from 'node:assert/strict'
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { Spoold, type SpooldError, type SpooldOptions } from '#src/index.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const opened: Spoold[] = []

after(async () => {
  for (const app of opened) await app.stop({ mercyMs: 0 })
})

function application(text: string, options: Partial<SpooldOptions> = {}) {
  const spool = spoolDirectory()
  const [module, journal] = ['tasks.mjs', 'said'].map(name => join(dirname(spool), name)) as [string, string]
  appendFileSync(journal, '')
  writeFileSync(
    module,
    `import { appendFileSync, readFileSync } from 'node:fs'
    import { currentTask, Spoold, Tasks } from 'spoold'
    const [SPOOL, MODULE] = ${JSON.stringify([spool, module])}
    const say = line => appendFileSync(${JSON.stringify(journal)}, line + '\\n')
    const said = () => readFileSync(${JSON.stringify(journal)}, 'utf8').split('\\n').filter(Boolean)
    ${text}`,
  )
  const app = new Spoold({ spooler: spool, sync: false, tasks: module, ...options })
  opened.push(app)
  const said = () => readFileSync(journal, 'utf8').split('\n').filter(Boolean)
  return { app, spool, said }
}

for (const mode of ['threads', 'processes'] as const)
  describe(`workers that are ${mode}`, { concurrency: 2 }, () => {
    it('run tasks at the same time, even those that block', async () => {
      const { app, said } = application(`
        export const tasks = new Tasks()
        tasks.task('meet', () => {
          say('here')
          while (said().length < 2) {}
        })`)
      await app.start({ mode, workers: 2 })
      await app.schedule('meet')
      await app.schedule('meet')
      await until('both tasks run', () => said().length === 2)
      await app.stop()
    })

    it('are killed with a task that outruns its deadline, which counts as a run, and all other tasks run', async () => {
      const { app, spool, said } = application(`
        export const tasks = new Tasks({ retryDelay: 0 })
        tasks.task('endless', { maxRetries: 1 }, () => {
          say('endless')
          for (;;) {}
        })
        tasks.task('other', i => say('other ' + i))`)
      await app.start({ mode, workers: 2, deadline: '1s' })
      await app.schedule('endless')
      for (let i = 0; i < 20; i++) await app.schedule('other', i)
      await until('the endless task is a dead letter', () => leftIn(join(spool, '.spoold/dead')).length === 2)
      await until('all other tasks have run', () => leftIn(spool).length === 0)
      const runs = said().filter(line => line === 'endless').length
      // threads may run it once more: beside another task, nobody knows which one ended the process
      assert.ok(mode === 'processes' ? runs === 2 : runs === 2 || runs === 3, `${runs} runs`)
      assert.equal(new Set(said()).size, 21)
      await app.stop()
    })

    it('are replaced after a task exits, or throws outside of its call', async () => {
      const { app, spool, said } = application(`
        export const tasks = new Tasks({ retryDelay: 0 })
        tasks.task('exits', () => { say('exits'); process.exit(3) })
        tasks.task('throws', async () => {
          say('throws')
          setTimeout(() => { throw new Error('late') })
          await new Promise(resolve => setTimeout(resolve, 60_000))
        })
        tasks.task('fine', () => say('fine'))`)
      await app.start({ mode })
      for (const task of ['exits', 'throws', 'fine']) await app.schedule(task)
      await until('the last task has run', () => said().includes('fine') && leftIn(spool).length === 0)
      assert.deepEqual(said().sort(), ['exits', 'fine', 'throws'])
      await app.stop()
    })

    it('have the working directory of the application, and schedule tasks to its spools', async () => {
      const mail = spoolDirectory()
      const { app, spool, said } = application(
        `export const tasks = new Tasks()
        tasks.task('look', async () => {
          say(process.cwd())
          await tasks.schedule('mail')
          await tasks.schedule('again')
        })
        tasks.task('again', () => say('again'))
        tasks.task('mail', { queue: 'mail' }, () => {})`,
        { queues: { mail } },
      )
      await app.start({ mode, queue: 'default' })
      await app.schedule('look')
      await until('both tasks have run', () => said().length === 2)
      assert.deepEqual(said(), [process.cwd(), 'again'])
      assert.equal(leftIn(mail).length, 1)
      await until('nothing is left', () => leftIn(spool).length === 0)
      await app.stop()
    })

    it('send tasks to the daemons that the application names, for the default queue too', async () => {
      const daemons = await Promise.all(
        [spoolDirectory(), spoolDirectory()].map(async spool => {
          const socket = join(dirname(spool), 'daemon.sock')
          const handler = `export default ({ task }) => { JOURNAL(task); return -2 }`
          return { socket, daemon: await startDaemon({ spool, handler, ini: { socket } }) }
        }),
      )
      const [mail = '', socket = ''] = daemons.map(each => each.socket)
      const { spool, said } = application(
        `export const tasks = new Tasks()
        tasks.task('look', { queue: 'own' }, async () => {
          await tasks.schedule('mail')
          await tasks.schedule('plain')
          await tasks.schedule('nowhere').catch(error => say(error.code + ' ' + /those of .* are known/.exec(error.message)[0]))
        })
        tasks.task('mail', { queue: 'mail' }, () => say('mail'))
        tasks.task('plain', () => say('plain'))
        tasks.task('nowhere', { queue: 'nowhere' }, () => {})`,
      )
      const module = join(dirname(spool), 'tasks.mjs')
      const app = new Spoold({ socket, sync: false, tasks: module, queues: { own: spool, mail } })
      opened.push(app)
      await app.start({ mode, queue: 'own' })
      await app.schedule('look')
      await until('the first task has run', () => said().length === 1)
      assert.deepEqual(said(), ['QUEUE_UNKNOWN those of own, default, mail are known'])
      for (const [i, task] of ['mail', 'plain'].entries())
        await until(`the task ${task} has arrived`, () => daemons[i]?.daemon.journal().join() === task)
      await app.stop()
    })

    it('refuse a module that starts workers itself', async () => {
      const { app } = application(`
        export const tasks = new Tasks()
        export const app = new Spoold({ spooler: SPOOL, tasks })
        if (globalThis[Symbol.for('test: main')] === undefined) await app.start()`)
      Object.assign(globalThis, { [Symbol.for('test: main')]: true })
      await assert.rejects(app.start({ mode }), (error: SpooldError) => {
        assert.equal(error.code, 'HANDLER_UNLOADABLE')
        assert.match(error.message, /this process is a worker/)
        return true
      })
    })
  })
