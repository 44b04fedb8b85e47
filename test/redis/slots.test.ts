import assert from 'node:assert/strict'
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { spool } from '#src/engines/client/spool.js'
import { inProcess } from '../helpers/cli.js'
import type { Daemon } from '../helpers/daemon.js'
import { isAlive } from '../helpers/process.js'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { patience, until, waitsOf } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'
import { daemonOn } from './redis-daemon.js'

/** `few` runs `count` at a time. A task with 'go' lasts until that file is there, one with 'die' kills its process once. */
const TASKS = (count: number | undefined, journal: string, go: string) => `
import { existsSync, appendFileSync as append } from 'node:fs'
import { currentTask, Tasks } from 'spoold'
export const tasks = new Tasks({ maxRetries: 9, retryDelay: 0 })
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
const say = line => append(${JSON.stringify(journal)}, line + '\\n')
tasks.task('few', { ${count === undefined ? '' : `maxConcurrency: ${count}`} }, async (n, ms = 0) => {
  say('begin ' + n + ' ' + Date.now() + ' ' + process.pid + ' ' + currentTask().fencingToken)
  if (ms === 'go') while (!existsSync(${JSON.stringify(go)})) await sleep(5)
  else if (ms === 'die' && currentTask().retries === 0) {
    say('dies ' + n + ' ' + Date.now() + ' ' + process.pid)
    process.kill(process.pid, 'SIGKILL')
  }
  else await sleep(Number(ms) || 0)
  say('end ' + n + ' ' + Date.now() + ' ' + process.pid)
})
tasks.task('free', async n => { say('free ' + n) })
`

interface Line {
  readonly word: string
  readonly n: number
  readonly at: number
  readonly pid: number
  readonly token: number
}

describe('maxConcurrency on Redis', { skip: skipUnless('redis-server') }, () => {
  let redis: TestRedis
  if (skipUnless('redis-server') === false) redis = startRedis()
  before(() => redis.ready())
  let names = 0

  async function withDaemons(daemons: number, count: number | undefined, ini = {}) {
    const name = `slots${names++}`
    const spooler = redis.address(name)
    const [journal, go] = ['journal', 'go'].map(file => join(workspace(), file))
    assert.ok(journal !== undefined && go !== undefined)
    writeFileSync(journal, '')
    const handler = TASKS(count, journal, go)
    const setup = {
      handler,
      isGroup: true,
      ini: { 'spooler-processes': 3, 'spooler-max-crashes': 9, ...ini },
    } as const
    const started: Daemon[] = []
    for (let i = 0; i < daemons; i++) started.push(await daemonOn(spooler, setup))
    return {
      name,
      daemons: started,
      another: () => daemonOn(spooler, setup),
      schedule: (task: string, ...args: unknown[]) =>
        spool({ task, args: JSON.stringify(args) }, { spooler }),
      /** Returns how many tasks wait in the queue of a limited task. */
      waiting: async (task: string) => {
        const key = `bull:${name}@${task}`
        return (await redis.client.llen(`${key}:wait`)) + (await redis.client.zcard(`${key}:prioritized`))
      },
      go: () => writeFileSync(go, ''),
      load: (more: number | undefined) => {
        for (const { handlerFile } of started) {
          const prelude = readFileSync(handlerFile, 'utf8').split('\nimport { existsSync')[0]
          writeFileSync(handlerFile, prelude + TASKS(more, journal, go))
        }
        for (const { child } of started) child.kill('SIGHUP')
      },
      /** Notes the end of each run whose process is gone: its task runs again after all others. */
      noteKilled(): void {
        const running = new Map<number, number>()
        for (const { word, n, pid } of this.lines())
          if (word === 'begin') running.set(pid, n)
          else running.delete(pid)
        for (const [pid, n] of running)
          if (!isAlive(pid)) appendFileSync(journal, `dies ${n} ${Date.now()} ${pid}\n`)
      },
      lines: (): Line[] =>
        readFileSync(journal, 'utf8')
          .split('\n')
          .filter(Boolean)
          .map(line => {
            const [word = '', n, at, pid, token] = line.split(' ')
            return { word, n: Number(n), at: Number(at), pid: Number(pid), token: Number(token) }
          }),
    }
  }

  /** Returns how many ran at once at most. A run that died with its process ends when the next run of its task begins. */
  function mostAtOnce(lines: readonly Line[]): number {
    const running = new Set<number>()
    let most = 0
    for (const { word, n } of lines) {
      if (word === 'begin') running.add(n)
      if (word !== 'begin') running.delete(n)
      most = Math.max(most, running.size)
    }
    return most
  }

  it('limits how many runs of a task go on over all daemons, keeps their order, and delays no other task', async () => {
    const { schedule, lines, go, waiting } = await withDaemons(2, 2)
    for (let n = 0; n < 2; n++) await schedule('few', n, 'go')
    await until('two tasks run', () => lines().length === 2)
    for (let n = 2; n < 12; n++) {
      await schedule('few', n, 20)
      // a task that a worker meets as it is stored is moved behind those that other workers have moved meanwhile
      await until('the task is in the queue of its name', async () => (await waiting('few')) === n - 1)
    }
    for (let n = 0; n < 5; n++) await schedule('free', n)
    await until(
      'the tasks without a limit ran',
      () => lines().filter(({ word }) => word === 'free').length === 5,
    )
    assert.equal(mostAtOnce(lines()), 2)
    go()
    await until('all tasks have run', () => lines().filter(({ word }) => word === 'end').length === 12)
    assert.equal(mostAtOnce(lines()), 2)
    // ordered by the tokens that Redis draws, because a process may journal a begun run late
    const begun = lines().filter(({ word }) => word === 'begin')
    const order = begun.toSorted((a, b) => a.token - b.token).map(({ n }) => n)
    for (const [i, n] of order.slice(2).entries()) assert.ok(Math.abs(n - (i + 2)) <= 1, `order: ${order}`)
  })

  it('makes tasks without a slot count as waiting, so that none is due and no age of due tasks is shown', async () => {
    const control = join(workspace(), 'control')
    const { schedule, lines, go } = await withDaemons(1, 1, { 'spooler-control': control })
    for (let n = 0; n < 3; n++) await schedule('few', n, 'go')
    await until('one task runs', () => lines().length === 1)
    const status = async () => (await inProcess(['status', '--control', control])).stdout
    await until('the other tasks wait', async () => (await status()).includes('2 waiting'))
    assert.match(await status(), /tasks +0 due, 1 running/)
    go()
    await until('all tasks have run', () => lines().filter(({ word }) => word === 'end').length === 3)
  })

  it('uses a free slot again at once, even if another daemon gave it back', async () => {
    const { schedule, lines, daemons } = await withDaemons(2, 1)
    const waits = waitsOf(() => daemons.flatMap(daemon => [daemon.pid, ...daemon.children()]))
    for (let n = 0; n < 30; n++) await schedule('few', n, 20)
    await until('all tasks have run', () => lines().filter(({ word }) => word === 'end').length === 30)
    assert.equal(mostAtOnce(lines()), 1)
    const gaps = lines()
      .flatMap(({ word, at }, i, all) => {
        const before = all[i - 1]
        return word === 'begin' && before !== undefined ? [at - before.at - waits(before.at, at)] : []
      })
      .sort((a, b) => a - b)
    assert.ok((gaps[Math.floor(gaps.length / 2)] ?? 0) < 100 * patience(), `${gaps}`)
  })

  it('changes with a reload to a higher limit, and then to none', async () => {
    const { schedule, lines, load, go } = await withDaemons(1, 1, { 'spooler-processes': 6 })
    for (let n = 0; n < 6; n++) await schedule('few', n, 'go')
    await until('one task runs', () => mostAtOnce(lines()) === 1)
    load(2)
    await until('two tasks run at once', () => mostAtOnce(lines()) === 2)
    load(undefined)
    await until('three tasks run at once', () => mostAtOnce(lines()) > 2)
    go()
    await until('all tasks have run', () => lines().filter(({ word }) => word === 'end').length >= 6)
  })

  it('holds and leaks no slot while workers and daemons are killed, and fencing tokens only grow', async () => {
    const scene = await withDaemons(2, 2)
    const { schedule, lines, daemons, another, name } = scene
    const total = 60
    for (let n = 0; n < total; n++) await schedule('few', n, n % 10 === 3 ? 'die' : 30)
    await until('some tasks have run', () => lines().filter(({ word }) => word === 'end').length > 15)
    const [first] = daemons
    assert.ok(first !== undefined)
    const its = [first.pid, ...first.children()]
    process.kill(-first.pid, 'SIGKILL')
    await until('the killed daemon is gone', () => !its.some(isAlive))
    scene.noteKilled()
    await another()
    await until(
      'all tasks have run',
      () => new Set(lines().flatMap(({ word, n }) => (word === 'end' ? [n] : []))).size === total,
      180_000, // the lock of a killed holder lasts up to 25 s
    )
    assert.equal(mostAtOnce(lines()), 2)
    const begun = lines().filter(({ word }) => word === 'begin')
    assert.equal(new Set(begun.map(({ token }) => token)).size, begun.length)
    for (const [i, { n, token }] of begun.entries())
      for (const later of begun.slice(i + 1)) if (later.n === n) assert.ok(later.token > token, `task ${n}`)
    await until('no slot is taken', async () => (await redis.client.llen(`bull:${name}@few:active`)) === 0)
  })
})
