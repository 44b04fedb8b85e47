import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  constants,
  lchownSync,
  lstatSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { USER } from '../helpers/canaries.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { startUwsgi, UWSGIS } from '../helpers/uwsgi.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** Writes letters to a FIFO without blocking; throws if the FIFO has no reader. */
function send(fifo: string, letters: string): void {
  const fd = openSync(fifo, constants.O_WRONLY | constants.O_NONBLOCK)
  try {
    writeSync(fd, letters)
  } finally {
    closeSync(fd)
  }
}

async function withFifo(prepare: (fifo: string) => void = () => {}, isUnready = false) {
  const spool = spoolDirectory()
  const fifo = join(dirname(spool), 'fifo')
  prepare(fifo)
  const setup = { spool, ini: { 'master-fifo': [fifo, `${fifo}.2`] } }
  const daemon = await startDaemon(isUnready ? { ...setup, isUnready } : setup)
  return { spool, fifo, daemon }
}

const times = (daemon: Daemon, text: string) => daemon.output.split(text).length - 1

describe('master-fifo', { skip: skipUnless('mkfifo') }, () => {
  it('pauses, goes on, prints the state, reloads and stops on letters from any of the FIFOs, and leaves them', async () => {
    const { spool, fifo, daemon } = await withFifo()
    assert.equal(lstatSync(fifo).mode & 0o777, 0o600)
    send(fifo, 'p\n')
    await daemon.waitFor('*** PAUSE')
    drop(spool, 'a')
    send(`${fifo}.2`, 'ls')
    await daemon.waitFor(/runs nothing; \d+ ahead/)
    assert.deepEqual(leftIn(spool), ['a'])
    send(fifo, 'p')
    await until('the daemon goes on', () => leftIn(spool).length === 0, 5000)
    send(fifo, 'r')
    await daemon.waitFor('reloaded')
    send(fifo, 'q\n')
    assert.equal(await daemon.code(), 0)
    assert.ok(lstatSync(fifo).isFIFO())
  })

  it('takes over a FIFO that is there already, and stops at once on Q', async () => {
    const { fifo, daemon } = await withFifo(path => execFileSync('mkfifo', [path]))
    send(fifo, 'Q')
    assert.equal(await daemon.code(), 0)
    assert.equal(times(daemon, 'ignored'), 0)
  })

  it('bounds a flood of letters, logs what it ignores, and lets tasks run meanwhile', async () => {
    const { spool, fifo, daemon } = await withFifo()
    send(fifo, 'Zw0'.repeat(20_000))
    await daemon.waitFor(/ignored: expected one of q, Q, r, R, l, \+, -, C, p, s, got [Zw0]{3}\n/)
    assert.ok(times(daemon, 'ignored') < 10)
    send(fifo, 's'.repeat(60_000))
    await daemon.waitFor('runs nothing')
    drop(spool, 'a')
    await until('the task has run', () => leftIn(spool).length === 0, 5000)
    assert.ok(times(daemon, 'runs nothing') < 1000)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })

  it('stops at once in a flood of other letters', async () => {
    const { fifo, daemon } = await withFifo()
    send(fifo, `${'s'.repeat(60_000)}q`)
    assert.equal(await daemon.code(), 0)
    assert.ok(times(daemon, 'runs nothing') < 100)
  })

  it('refuses a file and a symbolic link, and leaves them as they are', async () => {
    const refused = async (prepare: (fifo: string) => void) => {
      const { fifo, daemon } = await withFifo(prepare, true)
      assert.notEqual(await daemon.code(), 0)
      assert.match(daemon.output, /master-fifo \S+ cannot be used: .* not a FIFO; name another path/)
      return fifo
    }
    const file = await refused(path => writeFileSync(path, 'precious'))
    assert.equal(readFileSync(file, 'utf8'), 'precious')
    const link = await refused(path => {
      execFileSync('mkfifo', [`${path}.real`])
      symlinkSync(`${path}.real`, path)
    })
    assert.ok(lstatSync(link).isSymbolicLink())
  })

  it('returns after it was removed or replaced, and the log says once why it cannot be opened', async () => {
    const { fifo, daemon } = await withFifo()
    rmSync(fifo)
    await until('the FIFO is back', () => lstatSync(fifo, { throwIfNoEntry: false })?.isFIFO())
    renameSync(`${fifo}.2`, `${fifo}.old`)
    writeFileSync(`${fifo}.2`, 'precious')
    await daemon.waitFor('cannot be opened again: there is another file of this name, which is not a FIFO')
    assert.equal(readFileSync(`${fifo}.2`, 'utf8'), 'precious')
    rmSync(`${fifo}.2`)
    execFileSync('mkfifo', [`${fifo}.2`])
    await until('the daemon reads the FIFO', () => {
      try {
        send(`${fifo}.2`, 'p')
        return true
      } catch {
        return false // no reader
      }
    })
    await daemon.waitFor('*** PAUSE')
    send(fifo, 'r')
    await daemon.waitFor('reloaded')
    assert.equal(times(daemon, 'cannot be opened again'), 1)
    send(fifo, 'q')
    assert.equal(await daemon.code(), 0)
  })

  it('refuses the FIFO of another user as root', { skip: skipUnless('root') }, async () => {
    const { daemon } = await withFifo(path => {
      execFileSync('mkfifo', [path])
      chmodSync(path, 0o666)
      lchownSync(path, USER, USER)
    }, true)
    assert.notEqual(await daemon.code(), 0)
    assert.match(daemon.output, /it belongs to uid 65534, who could command this daemon/)
  })

  for (const uwsgi of UWSGIS)
    it(`shares the letters p and q with ${uwsgi.title}, which leaves its FIFO in place, too`, {
      skip: skipUnless(uwsgi.needs),
    }, async () => {
      const spool = spoolDirectory()
      const fifo = join(dirname(spool), 'fifo')
      const socket = join(dirname(spool), 'uwsgi.sock')
      const peer = startUwsgi({
        uwsgi,
        spool,
        handler: '',
        args: ['--master-fifo', fifo, '--socket', socket],
      })
      await peer.waitFor('spawned uWSGI worker')
      await until('uWSGI has made its FIFO', () => lstatSync(fifo, { throwIfNoEntry: false })?.isFIFO())
      assert.equal(lstatSync(fifo).mode & 0o777, 0o600)
      const { fifo: ours, daemon } = await withFifo()
      const PAUSED = '*** PAUSE (press start to resume, if you do not have a joypad send SIGTSTP) ***'
      for (const [path, process] of [
        [fifo, peer],
        [ours, daemon],
      ] as const) {
        send(path, 'p')
        await process.waitFor(PAUSED)
        await until('the process reads again', () => {
          try {
            send(path, 'q') // uWSGI makes a new FIFO whenever a writer leaves
            return true
          } catch {
            return false
          }
        })
        assert.equal(await process.code(), 0)
        assert.ok(lstatSync(path).isFIFO())
      }
    })
})
