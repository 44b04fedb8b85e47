import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { before, it } from 'node:test'
import { INDEX, program } from '../helpers/program.js'
import { startRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { embedded } from './homes.js'
import { conforms } from './suite.js'

const missing = skipUnless('redis-server')
it('a Redis is there for applications', { skip: missing }, () => {})
if (missing === false) suite(startRedis())

function suite(redis: ReturnType<typeof startRedis>): void {
  const { client } = redis
  let names = 0
  before(() => redis.ready())

  /** Returns a spool on Redis, and how many tasks are in its queues. */
  function onRedis() {
    const name = `home${names++}x` // so that no name begins with another
    const dead = async () => {
      const keys = await client.keys(`bull:${name}*:failed`)
      const counts = await Promise.all(keys.map(key => client.zcard(key)))
      return counts.reduce((a, b) => a + b, 0)
    }
    return {
      spooler: redis.address(name),
      /** A job keeps its hash, wherever it is listed. */
      async left() {
        const jobs = await client.keys(`bull:${name}*:*-*-*-*-*`)
        return jobs.filter(key => !key.endsWith(':lock')).length - (await dead())
      },
      dead,
    }
  }

  for (const mode of ['in-process', 'threads', 'processes'] as const)
    conforms(`${mode} on Redis`, text => embedded(text, mode, onRedis()))

  it('with stopWhenEmpty and block, start rejects if Redis has another type of key than a queue, once the tasks of other spools have run', async () => {
    const [broken, sound] = [redis.address('broken'), redis.address('sound')]
    await client.set('bull:broken:wait', 'no list')
    const { ended } = program(`
      import { Spoold, Tasks } from ${INDEX}
      const tasks = new Tasks()
      const quick = tasks.task('quick', { queue: 'sound' }, () => console.log('ran'))
      const app = new Spoold({ spooler: '${broken}', queues: { sound: '${sound}' }, tasks })
      await quick.schedule()
      await app.start({ stopWhenEmpty: true, block: true }).catch(({ code, message }) => console.log(code, message))`)
    const { code, stdout } = await ended
    assert.equal(code, 0)
    assert.match(stdout, /^ran\nSPOOL_UNUSABLE .*\/broken: WRONGTYPE /)
  })

  it('an application stores the outcome of its task, and ends, although the set of stalled jobs has another type', async () => {
    const spooler = redis.address('stalled')
    await client.set('bull:stalled:stalled', 'no set')
    const { ended } = program(`
      import { Spoold, Tasks } from ${INDEX}
      const tasks = new Tasks()
      const quick = tasks.task('quick', () => console.log('ran'))
      const app = new Spoold({ spooler: '${spooler}', tasks })
      await quick.schedule()
      await app.start({ stopWhenEmpty: true, block: true })`)
    assert.deepEqual(await ended, { code: 0, stdout: 'ran\n', stderr: '' })
    assert.equal(await client.llen('bull:stalled:active'), 0)
  })

  it('an application ends when it has stopped, even if Redis was killed', { timeout: 60_000 }, async () => {
    const mortal = startRedis()
    await mortal.ready()
    const { child, ended } = program(`
      import { Spoold, Tasks } from ${INDEX}
      const tasks = new Tasks()
      const quick = tasks.task('quick', () => {})
      const app = new Spoold({ spooler: '${mortal.address('mail')}?lock=3', tasks })
      await app.start({ concurrency: 16 })
      process.stdin.once('data', () => app.stop({ mercyMs: 100 }).then(() => console.log('stopped')))
      setTimeout(() => console.log('started'), 10)
      for (let i = 0; i < 10000; i++) quick.schedule().catch(() => {})`)
    await once(child.stdout, 'data')
    await mortal.kill()
    child.stdin.end('stop')
    const { code, stdout } = await ended
    assert.deepEqual([code, stdout], [0, 'started\nstopped\n'])
  })
}

it('an application ends when it has stopped, even if Redis is frozen', {
  skip: missing,
  timeout: 60_000,
}, async () => {
  const frozen = startRedis()
  await frozen.ready()
  const { child, ended } = program(`
    import { Spoold, Tasks } from ${INDEX}
    const app = new Spoold({ spooler: '${frozen.address('mail')}', tasks: new Tasks() })
    await app.start()
    process.stdin.once('data', async () => {
      const since = performance.now()
      process.on('exit', () => console.log(performance.now() - since))
      await app.stop()
    })
    console.log('started')`)
  await once(child.stdout, 'data')
  await until(
    'the application is a member',
    async () => (await frozen.client.keys('*spoold:members')).length === 1,
  )
  frozen.signal('SIGSTOP')
  await until('a request is on its way', () => isAsked(frozen.port))
  child.stdin.end('stop')
  const { code, stdout, stderr } = await ended
  assert.deepEqual([code, stderr], [0, ''])
  const [, endedMs = ''] = stdout.split('\n')
  assert.ok(Number(endedMs) > 0 && Number(endedMs) < 5000, stdout)
})

/** True if a server of this machine, at 127.0.0.1, has not read all that it was sent. */
function isAsked(port: number): boolean {
  const address = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const sockets = readFileSync('/proc/net/tcp', 'utf8').split('\n')
  const queues = sockets.map(line => line.trim().split(/\s+/)).filter(([, local]) => local === address)
  return queues.some(([, , , state, queue = '']) => state === '01' && !queue.endsWith(':00000000'))
}

it('an application that waits for its Redis ends at once when it is stopped', async () => {
  const { ended } = program(`
    import { Spoold, Tasks } from ${INDEX}
    const app = new Spoold({ spooler: 'redis://127.0.0.1:1/0/mail', tasks: new Tasks() })
    const isLoaded = new Promise(resolve => app.once('worker-started', resolve))
    const starting = app.start()
    await isLoaded
    const since = performance.now()
    await Promise.all([app.stop(), starting])
    process.on('exit', () => console.log(performance.now() - since))`)
  const { code, stdout, stderr } = await ended
  assert.deepEqual([code, stderr], [0, ''])
  assert.ok(Number(stdout) < 3000, stdout)
})
