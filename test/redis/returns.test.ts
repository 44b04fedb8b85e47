import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { spool } from '#src/engines/client/spool.js'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { patience, until } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'
import { daemonOn } from './redis-daemon.js'

/** The most lines that a daemon may log about lost runs. */
const LINES = 20
/** A daemon is back within this time. */
const BACK_MS = 2000
/** Redis loads this many keys, with a pause in µs after each, which takes longer than an outage that is not logged. */
const [KEYS, PAUSE_US] = [500, 20_000]

/** `few` runs two at a time; `tick` by itself; a task called with 'wait' lasts until the file is there. */
const TASKS = (journal: string, gate: string) => `
import { appendFileSync as append, existsSync } from 'node:fs'
import { Tasks } from 'spoold'
export const tasks = new Tasks()
const say = line => append(${JSON.stringify(journal)}, line + '\\n')
const run = async (n, how) => {
  say(n)
  while (how === 'wait' && !existsSync(${JSON.stringify(gate)})) await new Promise(end => setTimeout(end, 20))
}
tasks.task('any', { maxRetries: 3 }, run)
tasks.task('few', { maxConcurrency: 2, maxRetries: 3 }, run)
tasks.task('tick', { periodicity: 1 }, async () => say('tick'))`

describe('a daemon whose Redis was killed', { skip: skipUnless('redis-server') }, () => {
  const isThere = skipUnless('redis-server') === false
  let [kept, forgetful]: [TestRedis | undefined, TestRedis | undefined] = [undefined, undefined]
  if (isThere) [kept, forgetful] = [startRedis({ durability: 'always' }), startRedis()]
  before(() => Promise.all([kept?.ready(), forgetful?.ready()]))

  async function start(redis: TestRedis, name: string) {
    const [journal, gate] = ['journal', 'gate'].map(file => join(workspace(), file)) as [string, string]
    writeFileSync(journal, '')
    const daemon = await daemonOn(redis.address(name), {
      handler: TASKS(journal, gate),
      ini: { 'spooler-processes': 4 },
    })
    return {
      daemon,
      lines: () => readFileSync(journal, 'utf8').split('\n').filter(Boolean),
      open: () => writeFileSync(gate, ''),
      add: (task: string, ...args: string[]) =>
        spool({ task, args: JSON.stringify(args) }, { spooler: redis.address(name) }),
    }
  }
  type Scene = Awaited<ReturnType<typeof start>>

  /** Stores tasks until two of each kind run, and then more: due ones and one for later. */
  async function fill({ add, lines }: Scene, address: string): Promise<void> {
    for (const n of ['1', '2']) for (const task of ['any', 'few']) await add(task, `${task}${n}`, 'wait')
    await until('two tasks of each kind run', () => lines().filter(line => line !== 'tick').length === 4)
    for (let n = 3; n < 20; n++) for (const task of ['any', 'few']) await add(task, `${task}${n}`)
    const at = Date.now() / 1000 + 3600
    await spool({ task: 'any', args: '["later"]' }, { spooler: address, at })
  }

  async function endsWell({ daemon }: Scene, from: number): Promise<void> {
    const said = daemon.output.slice(from)
    assert.doesNotMatch(said, /respawn|max retries per request|panic|Error:/)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  }

  it('says once that it waits while Redis loads its data set, is back soon, and loses no task', async () => {
    assert.ok(kept !== undefined)
    const scene = await start(kept, 'loads')
    const { daemon, lines, open } = scene
    for (let key = 0; key < KEYS; key++) await kept.client.set(`filler${key}`, 'x')
    await fill(scene, kept.address('loads'))
    await kept.client.bgrewriteaof() // Redis loads only a snapshot slowly
    await until('the snapshot is written', async () =>
      (await kept?.client.info('persistence'))?.includes('aof_rewrite_in_progress:0'),
    )
    const from = daemon.output.length
    await kept.kill()
    open()
    const slowly = ['--key-load-delay', String(PAUSE_US), '--loading-process-events-interval-bytes', '1024']
    const isReady = kept.restart(slowly)
    await daemon.waitFor('waiting for Redis', 10_000)
    const refused = await scene.add('any', 'meanwhile').catch(error => error)
    assert.match(String(refused), /loading its data set/)
    await isReady
    const since = performance.now()
    await daemon.waitFor('Redis answers again', 20_000)
    assert.ok(performance.now() - since < BACK_MS * patience(), `${performance.now() - since} ms`)
    const said = daemon.output.slice(from).split('\n')
    assert.ok(said.filter(line => line.includes('waiting for Redis')).length === 1, said.join('\n'))
    await until('all due tasks have run', () => lines().filter(line => line !== 'tick').length >= 38)
    const ran = lines().filter(line => line !== 'tick')
    assert.equal(new Set(ran).size, ran.length, 'once')
    await endsWell(scene, from)
  })

  it('says which runs could not be settled when Redis has lost all data, and goes on with new tasks', async () => {
    assert.ok(forgetful !== undefined)
    const scene = await start(forgetful, 'empty')
    const { daemon, lines, open, add } = scene
    await fill(scene, forgetful.address('empty'))
    const from = daemon.output.length
    await forgetful.kill()
    await daemon.waitFor('waiting for Redis', 10_000)
    await forgetful.restart()
    await daemon.waitFor('Redis answers again', 20_000)
    const ticks = lines().filter(line => line === 'tick').length
    await setTimeout(500) // a run that ends before the feed has looked twice would be an easier case
    open()
    await until('the runs have ended', () => daemon.output.match(/could not be settled/g)?.length === 4)
    const lost = daemon.output.slice(from)
    assert.ok(lost.trim().split('\n').length <= LINES, lost)
    for (let n = 20; n < 25; n++) for (const task of ['any', 'few']) await add(task, `${task}${n}`)
    const after = ['any', 'few'].flatMap(task => [20, 21, 22, 23, 24].map(n => `${task}${n}`))
    await until('the tasks stored afterwards have run', () => after.every(line => lines().includes(line)))
    await until('periodic tasks run again', () => lines().filter(line => line === 'tick').length >= ticks + 2)
    const ran = lines().filter(line => line !== 'tick')
    assert.equal(new Set(ran).size, ran.length, 'once')
    const counts = await forgetful.client.hgetall('bull:empty:spoold:limited')
    assert.deepEqual(Object.keys(counts), ['few'])
    assert.equal(await forgetful.client.hget(`${counts.few}meta`, 'concurrency'), '2')
    await endsWell(scene, from)
  })
})
