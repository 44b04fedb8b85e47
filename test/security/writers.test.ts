import assert from 'node:assert/strict'
import { chmodSync, chownSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { giveAway, USER } from '../helpers/canaries.js'
import { spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const WRITER = 65_533

/** Makes a spool with a priority directory of another user, which nobody else may enter. */
function spoolWithClosedPriority(): string {
  const spool = spoolDirectory()
  chmodSync(dirname(spool), 0o755)
  giveAway(spool)
  mkdirSync(join(spool, '1'), { mode: 0o700 })
  chownSync(join(spool, '1'), WRITER, WRITER)
  return spool
}

describe('a priority directory that its owner keeps closed', { skip: skipUnless('root') }, () => {
  it('does not keep the daemon from removing temporary files of dead writers elsewhere', async () => {
    const spool = spoolWithClosedPriority()
    mkdirSync(join(spool, '2'))
    const left = ['.spoold-uwsgi_spoolfile_on_dead_1.tmp', '2/.spoold-uwsgi_spoolfile_on_dead_2.tmp']
    for (const name of left) writeFileSync(join(spool, name), '')
    for (const name of ['2', ...left]) chownSync(join(spool, name), USER, USER)
    const daemon = await startDaemon({
      spool,
      ini: { uid: USER, gid: USER, 'spooler-ordered': true, 'spooler-sweep': 1 },
    })
    await until('both temporary files are gone', () => left.every(name => !existsSync(join(spool, name))))
    assert.match(daemon.output, /1\/ cannot be listed: EACCES/)
  })

  for (const command of ['hold', 'rm'])
    it(`does not keep spoold ${command} --all from the other tasks, and is reported`, async () => {
      const spool = spoolWithClosedPriority()
      for (const name of ['uwsgi_spoolfile_on_a', 'uwsgi_spoolfile_on_b'])
        chownSync(drop(spool, name), USER, USER)
      const { code, stdout, stderr } = await spoold([command, '--all', spool])
      assert.match(stderr, /\/1\/ cannot be listed: EACCES/)
      assert.match(stdout, new RegExp(command === 'rm' ? 'removed' : 'held'))
      assert.equal(code, 1)
      const { stdout: held } = await spoold(['ls', '--state', 'held', '--json', spool])
      assert.deepEqual(
        [leftIn(spool).length, held.split('\n').filter(line => line.includes('"held"')).length],
        command === 'rm' ? [0, 0] : [2, 2],
      )
    })
})
