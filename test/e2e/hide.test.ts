import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { readAudit } from '#src/engines/spool/admin/audit.js'
import { inProcess } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const SECRET = 's3cr3t-value'
const KWARGS = JSON.stringify({ user: 'joe', password: SECRET })
const HANDLER = `export default env => { throw new Error('login as joe failed: password=' + JSON.parse(env.kwargs).password) }`

/** A daemon that has failed with a task, which says more than it should. */
async function failing(ini: Record<string, string>) {
  const spool = spoolDirectory()
  drop(spool, 'task', packet({ password: SECRET, kwargs: KWARGS, to: 'joe' }, KWARGS))
  const daemon = await startDaemon({ spool, handler: HANDLER, ini: { 'spooler-max-attempts': '1', ...ini } })
  const dead = join(spool, '.spoold/dead/task')
  await until('it is dead', () => existsSync(`${dead}.json`))
  await daemon.waitFor(/login as joe failed/)
  return { spool, daemon, dead }
}

describe('spooler-hide', () => {
  for (const format of ['text', 'json'])
    it(`keeps values out of the ${format} log, and what commands print`, async () => {
      const { spool, daemon, dead } = await failing({
        'spooler-hide': 'password,token',
        'log-format': format,
      })
      const printed = await Promise.all(
        [
          ['show', dead],
          ['show', '--json', dead],
          ['ls', '--vars', spool],
          ['ls', '--json', '--vars', spool],
          ['ls', '--show', 'password,kwargs', spool],
          ['ls', '--by', 'password', spool],
          ['ls', '--by', 'error', spool],
          ['logs', spool],
          ['logs', '--json', spool],
          ['rm', '--dry-run', '--key', `password=${SECRET}`, '--state', 'dead', spool],
        ].map(args => inProcess(args)),
      )
      for (const { stdout, stderr, code } of printed) {
        assert.equal(code, 0, stderr)
        assert.ok(!`${stdout}${stderr}`.includes(SECRET), stdout)
      }
      assert.match(printed[0]?.stdout ?? '', /"password" = "\[hidden\]"[\s\S]*joe/)
      assert.match(printed[9]?.stdout ?? '', /would remove/)
      assert.ok(!daemon.output.includes(SECRET), daemon.output)
      assert.match(daemon.output, /login as joe failed: password=\[hidden\]/)
      assert.ok(readFileSync(dead).includes(SECRET), 'the task itself is as it was')
      assert.equal((await inProcess(['rm', '--key', `password=${SECRET}`, '--state', 'dead', spool])).code, 0)
      assert.ok(!JSON.stringify(readAudit(spool, 9)).includes(SECRET))
      assert.equal(existsSync(dead), false)
    })

  it('hides nothing without it', async () => {
    const { daemon, dead, spool } = await failing({})
    assert.match((await inProcess(['show', dead])).stdout, new RegExp(SECRET))
    assert.match(daemon.output, new RegExp(SECRET))
    assert.equal(existsSync(join(spool, '.spoold/hide')), false)
  })
})
