import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { TaskBatch, TaskStatus } from '#src/index.js'
import { until } from '../helpers/until.js'
import type { Home } from './homes.js'

/** Tests what tasks can rely on wherever they run. */
export function conforms(name: string, open: (text: string) => Home): void {
  describe(`tasks that run in ${name}`, { concurrency: 3 }, () => {
    it('run once each, with their arguments, whether scheduled before or after the start', async () => {
      const home = open(`
        export const tasks = new Tasks()
        tasks.task('echo', (...args) => say(JSON.stringify([currentTask().name, currentTask().queue, ...args])))`)
      const first = await home.app.schedule('echo', 'a', { b: ['ü'] })
      assert.deepEqual([first.status, first.name, first.queue], [TaskStatus.QUEUED, 'echo', 'default'])
      await home.start()
      await until('the first task has run', () => home.said().length === 1)
      await home.app.schedule('echo', 'x'.repeat(100_000))
      await until('the second task has run', () => home.said().length === 2)
      await home.stop()
      await home.app.schedule('echo', 'not run')
      assert.deepEqual(home.said(), [
        '["echo","default","a",{"b":["ü"]}]',
        `["echo","default","${'x'.repeat(100_000)}"]`,
      ])
      await home.start()
      await until('the third task has run', () => home.said().length === 3)
    })

    it('that are periodic are scheduled while the application or daemon that runs them is started', async () => {
      const home = open(`
        export const tasks = new Tasks()
        tasks.task('tick', { periodicity: 1 }, () => say('tick ' + Date.now()))
        tasks.task('elsewhere', { periodicity: 1, queue: 'nowhere' }, () => say('elsewhere'))`)
      const ticks = () => home.said().filter(line => line.startsWith('tick'))
      const startedAt = Date.now()
      await home.start()
      await until('the periodic task has run twice', () => ticks().length >= 2)
      assert.ok(Number(ticks()[0]?.slice(5)) - startedAt >= 1000, 'the first run comes one period later')
      // in memory every queue has a spool
      assert.equal(home.said().includes('elsewhere'), home.isMemory)
      await home.stop()
      const runs = ticks().length
      await home.app.schedule('tick')
      assert.equal(ticks().length, runs)
      await home.start()
      await until('the periodic task goes on', () => ticks().length > runs + 1)
      await home.stop()
    })

    it('that are for later do not run before their time', async () => {
      const home = open(`
        export const tasks = new Tasks()
        tasks.task('when', () => say(String(Date.now())))`)
      await home.start()
      const { at, status } = await home.app.scheduleAt('when', new Date(Date.now() + 1100))
      if (Date.now() < at.getTime()) assert.equal(status, TaskStatus.WAITING)
      const [ranAt] = await until('a task ran', () => (home.said().length === 1 ? home.said() : undefined))
      assert.ok(Number(ranAt) >= at.getTime(), `at ${at.getTime()}, ran ${ranAt}`)
    })

    it('that fail run again as often as maxRetries says, or at the time that RetryTask names', async () => {
      const home = open(`
        export const tasks = new Tasks({ retryDelay: 0 })
        tasks.task('fails', { maxRetries: 2 }, () => { say('fails ' + currentTask().retries); throw new Error('no') })
        let at
        tasks.task('retries', { maxRetries: 1 }, () => {
          say('retries ' + currentTask().retries + (currentTask().retries === 0 || Date.now() >= said().filter(line => line.startsWith('at '))[0].slice(3)))
          if (currentTask().retries > 0) return
          at = Math.ceil(Date.now() / 1000) * 1000 + 1000
          say('at ' + at)
          throw new RetryTask({ retry: new Date(at) })
        })
        tasks.task('last', () => say('last'))`)
      await home.start()
      await home.app.schedule('fails')
      await home.app.schedule('retries')
      await until('all runs have ended', () => {
        const said = home.said()
        return said.includes('fails 2') && said.includes('retries 1true')
      })
      await home.app.schedule('last')
      await until('the last task has run', () => home.said().includes('last'))
      assert.deepEqual(
        home.said().filter(line => line.startsWith('fails')),
        ['fails 0', 'fails 1', 'fails 2'],
      )
      if (!home.isMemory) assert.equal(await home.dead(), 1)
    })

    it('that throw values which cannot be read fail like others, and their process goes on', async () => {
      const home = open(`
        export const tasks = new Tasks({ maxRetries: 1, retryDelay: 0 })
        const thrown = {
          getter: () => Object.defineProperty(new Error('no'), 'stack', { get() { throw new Error('never') } }),
          places: () => Object.assign(new Error('no'), { stack: [{ line: 1 }] }),
          answer: () => Object.assign(new Error('no'), { message: { code: 5 }, name: 5, stack: undefined }),
          proxy: () => new Proxy({}, { get() { throw new Error('never') } }),
        }
        for (const name of Object.keys(thrown))
          tasks.task(name, async () => { say(process.pid + ' ' + name); throw thrown[name]() })
        tasks.task('last', () => say(process.pid + ' last'))`)
      const kinds = ['getter', 'places', 'answer', 'proxy']
      for (const kind of [...kinds, 'last']) await home.app.schedule(kind)
      await home.start()
      const runs = await until('all have run', () => (home.said().length >= 9 ? home.said() : undefined))
      await home.stop()
      const names = runs.map(run => run.split(' ')[1]).sort()
      assert.deepEqual(names, [...kinds, ...kinds, 'last'].sort())
      assert.equal(new Set(runs.map(run => run.split(' ')[0])).size, 1, 'one process has run them all')
    })

    it('that abort do not run again', async () => {
      const home = open(`
        export const tasks = new Tasks({ maxRetries: 5, retryDelay: 0 })
        tasks.task('aborts', () => { say('aborts'); throw new AbortTask('enough') })
        tasks.task('last', () => say('last'))`)
      await home.start()
      await home.app.schedule('aborts')
      await until('the task has run', () => home.said().length === 1)
      await home.app.schedule('last')
      await until('the last task has run', () => home.said().includes('last'))
      assert.deepEqual(home.said(), ['aborts', 'last'])
      if (!home.isMemory) await until('the task is buried', async () => (await home.dead()) === 1)
    })

    it('can be scheduled in batches, also by other tasks', async () => {
      const home = open(`
        export const tasks = new Tasks()
        tasks.task('count', i => say(i))
        tasks.task('spread', () => tasks.scheduleBatch(new TaskBatch().schedule('count', 50).schedule('count', 51)))`)
      await home.start()
      const batch = new TaskBatch()
      for (let i = 0; i < 50; i++) batch.schedule('count', i)
      batch.schedule('spread')
      assert.equal((await home.app.scheduleBatch(batch)).length, 51)
      await until('all tasks have run', () => home.said().length === 52)
      assert.deepEqual(
        home
          .said()
          .map(Number)
          .sort((a, b) => a - b),
        Array.from({ length: 52 }, (_, i) => i),
      )
    })

    it('run at the same time if they await, as many as concurrency says, each with its own currentTask()', async () => {
      const home = open(`
        export const tasks = new Tasks()
        tasks.task('meet', async i => {
          say('begin')
          await until(() => said().filter(line => line === 'begin').length === 3)
          say('met ' + currentTask().args[0] + i)
        })`)
      for (let i = 0; i < 3; i++) await home.app.schedule('meet', i)
      await home.start({ concurrency: 3 })
      await until('all tasks have met', () => home.said().length === 6)
      assert.deepEqual(home.said().slice(3).sort(), ['met 00', 'met 11', 'met 22'])
    })

    it('are reported by events: started first, then retried or failed, finished last', async () => {
      const home = open(`
        export const tasks = new Tasks({ retryDelay: 0 })
        tasks.task('good', () => say('good'))
        tasks.task('async', async () => { await null; say('async') })
        tasks.task('bad', { maxRetries: 1 }, () => { throw new TypeError('bad luck') })
        tasks.task('gives-up', { maxRetries: 9 }, () => { throw new AbortTask('no way') })`)
      await home.start()
      for (const [i, task] of ['good', 'async', 'bad', 'gives-up'].entries()) {
        const count = [2, 4, 10, 13][i] ?? 0
        await home.app.schedule(task)
        await until(`${task} has ended`, () => home.events().length >= count)
      }
      await home.stop()
      assert.deepEqual(home.events(), [
        'task-started good 3 0 default',
        'task-finished good 4 0 default',
        'task-started async 3 0 default',
        'task-finished async 4 0 default',
        'task-started bad 3 0 default',
        'task-retried bad 2 1 bad luck default',
        'task-finished bad 2 1 default',
        'task-started bad 3 1 default',
        'task-failed bad 5 1 bad luck default',
        'task-finished bad 5 1 default',
        'task-started gives-up 3 0 default',
        'task-failed gives-up 5 0 no way default',
        'task-finished gives-up 5 0 default',
      ])
    })

    it('are each reported once as started and then as finished when many run', async () => {
      const home = open(`
        export const tasks = new Tasks()
        tasks.task('one', async i => { if (i % 2) await null })`)
      await home.start({ workers: 2, concurrency: 4 })
      const batch = new TaskBatch()
      for (let i = 0; i < 200; i++) batch.schedule('one', i)
      await home.app.scheduleBatch(batch)
      await until('all tasks have ended', () => home.events().length >= 400)
      await home.stop()
      const told = home.events()
      assert.equal(told.length, 400)
      for (let i = 0; i < 200; i++)
        assert.deepEqual(
          told.filter(line => line.includes(` one ${i} `)),
          [`task-started one ${i} 3 0 default`, `task-finished one ${i} 4 0 default`],
        )
    })

    it('of one name run at most maxConcurrency at a time, while others pass them', async () => {
      const home = open(`
        export const tasks = new Tasks({ maxRetries: 1 })
        tasks.task('limited', { maxConcurrency: 2 }, async () => {
          say('+')
          await until(() => said().includes('free') && said().filter(line => line === '+').length >= 2)
          await new Promise(resolve => setTimeout(resolve, 5))
          say('-')
        })
        tasks.task('free', () => say('free'))`)
      const batch = new TaskBatch()
      for (let i = 0; i < 10; i++) batch.schedule('limited')
      await home.app.scheduleBatch(batch.schedule('free'))
      await home.start({ workers: 2, concurrency: 3 })
      await until('all tasks have run', () => home.said().length === 21)
      const said = home.said()
      let running = 0
      const most = Math.max(
        ...said.filter(line => line !== 'free').map(line => (running += line === '+' ? 1 : -1)),
      )
      assert.equal(most, 2)
    })

    it('end before a stop resolves', async () => {
      const home = open(`
        export const tasks = new Tasks()
        tasks.task('slow', async () => { say('begin'); await new Promise(resolve => setTimeout(resolve, 200)); say('end') })`)
      await home.start()
      await home.app.schedule('slow')
      await until('the task has begun', () => home.said().length > 0)
      await home.stop()
      assert.deepEqual(home.said(), ['begin', 'end'])
    })

    it('run at most once without maxRetries, and again with maxRetries, if their process dies', async t => {
      const home = open(`
        export const tasks = new Tasks({ retryDelay: 0 })
        const die = () => { say(currentTask().name + currentTask().retries); if (said().filter(line => line.startsWith(currentTask().name)).length === 1) process.kill(process.pid, 'SIGKILL') }
        tasks.task('once', die)
        tasks.task('again', { maxRetries: 1 }, die)`)
      if (home.runAndDie === undefined) return t.skip('nothing survives its process')
      await home.app.schedule('once')
      await home.runAndDie()
      await home.app.schedule('again')
      await home.runAndDie()
      await home.start()
      await until('nothing is left', async () => (await home.left()) === 0)
      assert.deepEqual(home.said().slice(0, 2), ['once0', 'again0'])
      assert.match(home.said()[2] ?? '', /^again[01]$/)
      assert.equal(home.said().length, 3)
      assert.equal(await home.dead(), 1)
    })
  })
}
