import assert from 'node:assert/strict'
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { enqueue } from '#src/engines/client/spool.js'
import { inProcess, spoold } from '../helpers/cli.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { socketsOf } from '../helpers/proc.js'
import { TestProcess } from '../helpers/process.js'
import { isLong } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

const BLOCKED = `import { existsSync } from 'node:fs'
  import { setTimeout } from 'node:timers/promises'
  export default async (env, task) => {
    JOURNAL('begun')
    while (!existsSync(env.until)) await setTimeout(10)
    return task.SPOOL_OK
  }`

const waiting = (...args: string[]) => new TestProcess(process.execPath, [BIN, 'wait', ...args])
const isConnected = ({ pid }: TestProcess) => socketsOf(pid) > 0
const lines = (text: string) => text.split('\n').filter(Boolean)

const TRIES = isLong ? 1000 : 200

describe('spoold wait, beside a daemon', { concurrency: 3 }, () => {
  it('outlives the daemon, and ends when the next one has run the task', async () => {
    const spool = spoolDirectory()
    const end = join(dirname(spool), 'end')
    const task = drop(spool, undefined, packet({ until: end }))
    const daemon = await startDaemon({ spool, handler: BLOCKED, isGroup: true })
    await until('the task runs', () => daemon.journal().length === 1)
    const wait = waiting(task)
    await until('wait is connected', () => isConnected(wait))
    process.kill(-daemon.pid, 'SIGKILL') // the worker, too, which would go on for a minute
    await daemon.exited
    await until('wait has noticed that the daemon is dead', () => !isConnected(wait))
    const next = await startDaemon({ spool, handler: BLOCKED })
    await until('the task runs again', () => next.journal().length === 2)
    await until('wait is connected again', () => isConnected(wait))
    writeFileSync(end, '')
    assert.equal(await wait.code(), 0)
    // a connected wait may not have been heard yet: the task may have ended in between
    assert.match(wait.output, new RegExp(`^(?:done|gone) ${task}`))
  })

  it('says of 1,000 tasks how each ended', async () => {
    const spool = spoolDirectory()
    const tasks = Array.from({ length: 1000 }, (_, i) =>
      drop(spool, undefined, packet({ say: i % 100 === 0 ? 'bury' : 'ok' })),
    )
    const wait = waiting(...tasks)
    await startDaemon({
      spool,
      handler: `export default (env, task) => (env.say === 'bury' ? { bury: 'no' } : task.SPOOL_OK)`,
      ini: { 'spooler-processes': 2 },
    })
    assert.equal(await wait.code(), 1)
    const said = lines(wait.output).map(line => line.replace(/^spoold: /, '').split(' ')[0])
    const count = (word: string) => said.filter(each => each === word).length
    assert.deepEqual([count('done') + count('gone'), count('dead')], [990, 10])
    // tasks that ended before the daemon had a control socket are only gone
    const again = waiting(...tasks.filter((_, i) => i % 100 === 0))
    assert.equal(await again.code(), 1)
    assert.equal(lines(again.output).length, 10)
  })

  it('reports each of 1,000 tasks as done after a pause that held them back', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool })
    assert.equal((await spoold(['pause', spool])).code, 0)
    await daemon.waitFor('paused')
    const tasks = Array.from({ length: 1000 }, () => drop(spool))
    const wait = waiting(...tasks)
    const end = `${tasks.at(-1)}`
    const other = waiting('--timeout', '0', end)
    assert.equal(await other.code(), 124)
    await until('wait is connected', () => isConnected(wait))
    assert.equal((await spoold(['resume', spool])).code, 0)
    assert.equal(await wait.code(), 0)
    assert.deepEqual(lines(wait.output).sort(), tasks.map(task => `done ${task}`).sort())
  })

  it('notices that a task is removed while it waits, which the daemon does not report', async () => {
    const spool = spoolDirectory()
    await startDaemon({ spool })
    const task = drop(spool, undefined, packet({ at: '9999999999' }))
    const wait = waiting('--json', task)
    await until('the daemon knows the task', async () => (await spoolSnapshotOf(spool)).tasks.waiting === 1)
    await until('wait has found the task and is connected', () => isConnected(wait))
    rmSync(task)
    assert.equal(await wait.code(), 0)
    assert.equal(JSON.parse(wait.output).result, 'gone')
  })

  it('finds tasks by names and ids in the spools of a configuration', async () => {
    const [spool, other] = [spoolDirectory(), spoolDirectory()]
    const ini = join(dirname(spool), 'wait.ini')
    writeFileSync(ini, `[uwsgi]\nspooler = ${spool}\nspooler = ${other}\n`)
    const [name = ''] = [basename(drop(other))]
    const stored = await spoold(['enqueue', '--spooler', other, '--id', 'order 7', 'a=b'])
    const path = stored.stdout.trim()
    const held = await inProcess(['wait', '--ini', ini, '--timeout', '0', name, 'order 7'])
    assert.equal(held.code, 124)
    assert.deepEqual(
      lines(held.stderr)
        .map(line => line.split(' ')[1])
        .sort(),
      [join(other, name), path].sort(),
    )
    await startDaemon({ spool: other })
    const { code, stdout } = await spoold(['wait', '--ini', ini, name, 'order 7'])
    assert.deepEqual([code, lines(stdout).length], [0, 2])
    assert.deepEqual(leftIn(other), [])
    const gone = await inProcess(['wait', '--ini', ini, 'order 7'])
    assert.deepEqual([gone.code, gone.stdout], [0, `done ${path}\n`])
  })

  it('reports a task as done each time, even if it ended before wait began', async () => {
    const spool = spoolDirectory()
    await startDaemon({
      spool,
      ini: { 'spooler-quiet': true },
      handler: 'export default (env, task) => task.SPOOL_OK',
    })
    const failures: string[] = []
    const tryOne = async (i: number) => {
      const { path } = await enqueue({ n: String(i) }, { spooler: spool, sync: false, id: `try-${i}` })
      const word = i % 2 === 0 ? path : `${spool}/try-${i}`
      const { code, stdout, stderr } = await inProcess(['wait', '--timeout', '60s', word])
      if (code !== 0 || !/^done /.test(stdout)) failures.push(`${code} ${stdout}${stderr}`)
    }
    for (let i = 0; i < TRIES; i += 10) await Promise.all(Array.from({ length: 10 }, (_, k) => tryOne(i + k)))
    assert.deepEqual(failures, [])
  })

  it('asks the daemon about a gone task, by name, by id and by UUID, until 10,000 more have ended', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: `import { Tasks } from 'spoold'
        export const tasks = new Tasks()
        tasks.task('mail', async () => {})
        export default (env, task) => (env.say === 'bury' ? { bury: 'no' } : task.SPOOL_OK)`,
      ini: { 'spooler-quiet': true, 'spooler-processes': 2 },
    })
    const uuid = '0b9c2a4e-6f1d-4c7b-9a52-3f0e8d1c7a66'
    const done = drop(spool)
    drop(spool, undefined, packet({ task: 'mail', args: '[]', id: uuid }))
    const dead = drop(spool, undefined, packet({ say: 'bury' }))
    await enqueue({ n: '7' }, { spooler: spool, id: 'order 7' })
    const told = async (word: string) => {
      const { code, stdout, stderr } = await inProcess(['wait', word])
      return [code, (stdout + stderr).replace(/^spoold: /, '').split(` ${spool}`)[0]]
    }
    await until('all tasks have ended', async () => (await spoolSnapshotOf(spool)).totals.done === 3)
    assert.equal((await spoold(['purge', '--all', spool])).code, 0)
    for (const word of [done, `${spool}/${uuid}`, `${spool}/order 7`])
      assert.deepEqual(await told(word), [0, 'done'])
    assert.deepEqual(await told(dead), [1, 'dead'])
    for (const word of [`${spool}/typo-name`, '/nowhere/task'])
      assert.deepEqual((await told(word))[0], 4, word)
    for (let i = 0; i < 10_100; i++) drop(spool, undefined, packet({}))
    await until(
      '10,000 more tasks have ended',
      async () => (await spoolSnapshotOf(spool)).totals.done >= 10_103,
    )
    for (const word of [done, `${spool}/${uuid}`, `${spool}/order 7`, dead])
      assert.deepEqual(await told(word), [0, 'done or unknown'], word)
    assert.ok(daemon.isRunning)
  })
})

describe('spoold wait where a directory cannot be looked at any more', () => {
  it('fails with the error of the file system, and calls the task neither gone nor done', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    const lost = drop(join(spool, '5'))
    const removed = drop(spool)
    const wait = waiting(removed, lost)
    await until('the wait looks at the directory', () => {
      rmSync(removed, { force: true })
      return wait.output.includes(removed)
    })
    rmSync(join(spool, '5'), { recursive: true })
    symlinkSync('5', join(spool, '5')) // every look below it ends with ELOOP
    await wait.waitFor(/ELOOP/)
    assert.equal(await wait.code(), 1)
    assert.doesNotMatch(wait.output, /(?:gone|done|unknown) \S+\/5\//)
  })
})
