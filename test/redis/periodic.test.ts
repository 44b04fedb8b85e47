import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import type { Daemon } from '../helpers/daemon.js'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'
import { daemonOn } from './redis-daemon.js'

const PERIOD_S = 2

describe('periodic tasks on Redis', { skip: skipUnless('redis-server') }, () => {
  let redis: TestRedis
  if (skipUnless('redis-server') === false) redis = startRedis()
  before(() => redis.ready())

  /** @returns how to start daemons whose task appends the time of each run to one file, and those times */
  function withJournal(name: string) {
    const journal = join(workspace(), 'journal')
    writeFileSync(journal, '')
    const handler = `
import { appendFileSync as append } from 'node:fs'
import { Tasks } from 'spoold'
export const tasks = new Tasks()
tasks.task('tick', { periodicity: ${PERIOD_S} }, async () => append(${JSON.stringify(journal)}, Date.now() + '\\n'))`
    return {
      start: (): Promise<Daemon> =>
        daemonOn(redis.address(name), { handler, isGroup: true, ini: { 'spooler-processes': 2 } }),
      times: () => readFileSync(journal, 'utf8').split('\n').filter(Boolean).map(Number),
    }
  }

  it('run once per period with two daemons, even if one is killed', async () => {
    const { start, times } = withJournal('cluster')
    const [first] = [await start(), await start()]
    await until('the task has run three times', () => times().length >= 3)
    process.kill(-first.pid, 'SIGKILL')
    const before = times().length
    await until('the task has run three times more', () => times().length >= before + 3)
    const gaps = times()
      .slice(1)
      .map((at, i) => at - (times()[i] ?? 0))
    // a run that the killed daemon had claimed comes late, and the next period begins at the claim
    const tooShort = gaps.filter(gap => gap < PERIOD_S * 1000 * 0.6)
    assert.deepEqual(tooShort, [], `${gaps}`)
  })

  it('keep their schedule over a restart', async () => {
    const { start, times } = withJournal('restart')
    const first = await start()
    await until('the task has run', () => times().length >= 1)
    first.child.kill('SIGTERM')
    await first.exited
    const [key] = await redis.client.hkeys('bull:restart:spoold:periodic')
    assert.equal(key, 'tick')
    const nextMs = async () => {
      const text = (await redis.client.hget('bull:restart:spoold:periodic', 'tick')) ?? ''
      return (JSON.parse(text.slice(text.indexOf('{'))) as { nextMs: number }).nextMs
    }
    const planned = await nextMs()
    await start()
    await until('the task has run again', () => times().length >= 2)
    assert.ok((times()[1] ?? 0) >= planned - 100, `${times()[1]} before ${planned}`)
  })

  it('do not run while their last run goes on, and do not queue behind it', async () => {
    const spooler = redis.address('alone')
    const gate = join(workspace(), 'gate')
    const handler = `
import { existsSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { Tasks } from 'spoold'
export const tasks = new Tasks()
tasks.task('tick', { periodicity: 1 }, async () => {
  JOURNAL('begun')
  while (!existsSync(${JSON.stringify(gate)})) await setTimeout(20)
})`
    const daemon = await daemonOn(spooler, { handler, ini: { 'spooler-processes': 2 } })
    await until('the task runs', () => daemon.journal().length > 0)
    const version = async () =>
      Number.parseInt((await redis.client.hget('bull:alone:spoold:periodic', 'tick')) ?? '', 10)
    const from = await version()
    await until('the time of the task has come three times more', async () => (await version()) >= from + 3)
    const waiting = await redis.client.zcard('bull:alone:prioritized')
    assert.deepEqual([daemon.journal().length, waiting], [1, 0])
    writeFileSync(gate, '')
    await until('the task runs again', () => daemon.journal().length > 1)
  })
})
