import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { before, describe, it } from 'node:test'
import { leftIn } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { freePort, startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { asOptions, UWSGIS } from '../helpers/uwsgi.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { daemonOn } from '../redis/redis-daemon.js'

/** Stores a task per request, and answers with the name of its file. */
const WEB = `
import time, uwsgi
def application(environ, start):
    n = environ['QUERY_STRING']
    more = {b'priority': b'3'} if n == 'urgent' else {b'at': str(int(time.time()) + 2).encode()} if n == 'later' else {}
    name = uwsgi.spool({b'n': n.encode(), b'body': b'x' * 100000, **more})
    start('200 OK', [('Content-Type', 'text/plain')])
    return [name]
`
const HANDLER = `export default (env, task) => {
  JOURNAL([env.n, task.priority, task.body.length].join(' '))
  return task.SPOOL_OK
}`

for (const uwsgi of UWSGIS) {
  const skip = skipUnless('redis-server', uwsgi.needs)
  describe(`uwsgi.spool() of ${uwsgi.title}`, { skip }, () => {
    let redis: TestRedis
    if (skip === false) redis = startRedis({ durability: 'always' })
    before(() => redis.ready())

    it('reaches Redis once per task through spooler-fallback, even if it stores while Redis is away', async () => {
      const directory = spoolDirectory()
      const home = dirname(directory)
      const port = freePort()
      writeFileSync(join(home, 'web.py'), WEB)
      const daemon = await daemonOn(redis.address('uwsgi'), {
        handler: HANDLER,
        ini: { 'spooler-fallback': directory },
      })
      const peer = new TestProcess(
        uwsgi.command,
        [
          ...asOptions(uwsgi.python),
          ...['--master', '--die-on-term', '--module', 'web'],
          ...['--http-socket', `127.0.0.1:${port}`, '--spooler-external', directory],
        ],
        { cwd: home },
      )
      await peer.waitFor('spawned uWSGI worker 1')
      const ask = async (n: string) => {
        const answer = await fetch(`http://127.0.0.1:${port}/?${n}`)
        assert.match(await answer.text(), /uwsgi_spoolfile_on_/, peer.output)
      }
      for (const n of ['first', 'urgent', 'later']) await ask(n)
      await until('all tasks have run', () => daemon.journal().length === 3)
      assert.deepEqual(daemon.journal().toSorted(), ['first  100000', 'later  100000', 'urgent 3 100000'])
      await redis.kill()
      await ask('away')
      await daemon.waitFor('tasks wait here until they can be forwarded')
      await redis.restart()
      await until('the task stored meanwhile has run', () => daemon.journal().includes('away  100000'))
      await until('no task is left in the directory', () =>
        leftIn(directory).every(name => !/uwsgi_spoolfile_on_/.test(name)),
      )
      assert.equal(daemon.journal().length, 4)
    })
  })
}
