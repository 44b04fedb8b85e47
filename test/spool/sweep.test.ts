import assert from 'node:assert/strict'
import { chmodSync, closeSync, mkdirSync, openSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { enqueue } from '#src/index.js'
import { tryHold } from '#src/spool/lock.js'
import { sweepSpool } from '#src/spool/sweep.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const LEFTOVER = '.spoold-uwsgi_spoolfile_on_dead_1_1_1_1_1.tmp'
const sweep = (spool: string, graceMs: number) => sweepSpool({ spool, graceMs, idTtlMs: 0 })
/** ctimes cannot be set: the only way to an old file is to wait until it is. */
const untilOlder = (ms: number) => new Promise(resolve => setTimeout(resolve, ms + 20))

describe('a sweep', () => {
  it('removes what dead writers left, in the spool and in its priorities, and nothing else', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    mkdirSync(join(spool, 'mine'))
    const kept = [
      '.hidden',
      '.spoold-x',
      'x.tmp',
      'uwsgi_spoolfile_on_a',
      'uwsgi_spoolfile_on_empty',
      `mine/${LEFTOVER}`,
    ]
    for (const name of [...kept, LEFTOVER, `5/${LEFTOVER}`])
      writeFileSync(join(spool, name), name.includes('empty') ? '' : 'x')
    symlinkSync('/etc/passwd', join(spool, '.spoold-link.tmp'))
    utimesSync(join(spool, LEFTOVER), 4e9, 4e9) // what it was to run at says nothing of its age
    await untilOlder(10)
    assert.equal((await sweep(spool, 10)).removed, 2)
    assert.deepEqual(leftIn(spool), [...kept, '.spoold-link.tmp'].sort())
  })

  it('leaves alone what is young, and everything when it is off', async () => {
    const spool = spoolDirectory()
    writeFileSync(join(spool, LEFTOVER), 'x')
    utimesSync(join(spool, LEFTOVER), 1, 1)
    await sweep(spool, 60_000)
    await sweep(spool, 0)
    assert.deepEqual(leftIn(spool), [LEFTOVER])
  })

  it('leaves alone what a writer holds, however old', async () => {
    const spool = spoolDirectory()
    writeFileSync(join(spool, LEFTOVER), 'x')
    const fd = openSync(join(spool, LEFTOVER), 'r+')
    assert.ok(await tryHold(fd))
    await untilOlder(5)
    assert.equal((await sweep(spool, 1)).removed, 0)
    closeSync(fd)
    assert.equal((await sweep(spool, 1)).removed, 1)
  })

  it('does not disturb a writer whose body comes slowly', async () => {
    const spool = spoolDirectory()
    let sweeps = 0
    const body = Readable.from(
      (async function* () {
        for (let i = 0; i < 5; i++) {
          yield Buffer.from('part ')
          await untilOlder(2)
          sweeps += (await sweep(spool, 1)).removed + 1
        }
      })(),
    )
    const { path } = await enqueue({ a: 1 }, { spooler: spool, body })
    assert.equal(sweeps, 5, 'five sweeps, nothing removed')
    assert.deepEqual(leftIn(spool), [path.slice(spool.length + 1)])
  })

  it('is nothing to a spool that is not there, and goes on behind what is closed to it', async () => {
    const spool = spoolDirectory()
    assert.deepEqual(await sweep(join(spool, 'none'), 1), { removed: 0, published: 0, forgotten: 0 })
    writeFileSync(join(spool, LEFTOVER), 'x')
    chmodSync(join(spool, LEFTOVER), 0)
    await untilOlder(1)
    await sweep(spool, 1)
  })

  it('is done by the daemon, in its own spools and in external ones', async () => {
    const [spool, external] = [spoolDirectory(), spoolDirectory()]
    for (const each of [spool, external]) writeFileSync(join(each, LEFTOVER), 'x')
    const daemon = await startDaemon({
      spool,
      ini: { 'spooler-external': external, 'spooler-sweep': 1 },
    })
    await until('both are clean', () => leftIn(spool).length + leftIn(external).length === 0)
    assert.match(daemon.output, /swept what writers that died left behind: 1 unfinished tasks removed/)
  })
})
