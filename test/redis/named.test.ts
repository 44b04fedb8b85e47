import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { Tasks } from '#src/index.js'
import { inProcess } from '../helpers/cli.js'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { daemonOn } from './redis-daemon.js'

describe('named tasks on Redis', { skip: skipUnless('redis-server') }, () => {
  let redis: TestRedis
  if (skipUnless('redis-server') === false) redis = startRedis()
  before(() => redis.ready())

  it('appear in ls --json and show --json as they were scheduled', async () => {
    const spooler = redis.address('calls')
    const tasks = new Tasks({ spooler })
    const mail = tasks.task('send-mail', (_to: string, _n: number) => {})
    const [waiting, due] = [await mail.scheduleAt('+1h', 'joe', 1), await mail.schedule('jim', 2)]
    const { stdout } = await inProcess(['ls', '--json', '--task', 'send-mail', spooler])
    const listed = stdout.trim().split('\n')
    const rows = listed.map(line => JSON.parse(line))
    const of = (id: string) => rows.find(({ task }) => task?.id === id)
    assert.deepEqual(of(waiting.id).task, {
      ...waiting,
      at: waiting.at.toISOString(),
      maxRetries: null,
    })
    assert.deepEqual([of(waiting.id).task.status, of(due.id).task.status], [1, 2])
    const shown = JSON.parse((await inProcess(['show', '--json', `${spooler}/${of(due.id).name}`])).stdout)
    assert.deepEqual([shown.task.args, shown.task.status], [['jim', 2], 2])
  })

  it('go to the queue that they name, and only the daemon of that queue runs them', async () => {
    const [own, mail] = [redis.address('own'), redis.address('mail')]
    const handler = `
import { Tasks } from 'spoold'
export const tasks = new Tasks()
tasks.task('own', () => JOURNAL('own'))
const mailed = tasks.task('mailed', { queue: 'mail' }, () => JOURNAL('mailed'))
const lost = tasks.task('lost', { queue: 'lost' }, () => {})
tasks.task('begin', async () => {
  await mailed.schedule()
  await lost.schedule().catch(({ code }) => JOURNAL(code))
})`
    const ini = { 'spooler-queue': `mail=${mail}` }
    const [first, mailer] = [await daemonOn(own, { handler, ini }), await daemonOn(mail, { handler, ini })]
    const tasks = new Tasks({ spooler: own })
    for (const name of ['own', 'begin']) await tasks.task(name, () => {}).schedule()
    await until('the daemon of the named queue has run the task', () => mailer.journal().length === 1)
    await until('the first daemon has run both of its tasks', () => first.journal().length === 2)
    assert.deepEqual(mailer.journal(), ['mailed'])
    assert.deepEqual(first.journal().sort(), ['QUEUE_UNKNOWN', 'own'])
  })
})
