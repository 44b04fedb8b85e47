import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { Tmux } from '../helpers/tmux.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

const HANDLER = 'export default env => (env.hangs ? new Promise(() => setInterval(() => {}, 1000)) : -2)'
const LATER = 4_000_000_000

/** Starts a daemon that can be asked at one socket alone, outside of the spool, with a task that hangs and two later ones. */
async function startAside() {
  const spool = spoolDirectory()
  const socket = join(dirname(spool), 'app.sock')
  const ini = {
    'spooler-control': ['off', socket],
    'worker-reload-mercy': 1,
    'spooler-processes': 2,
    'spooler-cheaper': 1,
  }
  const daemon = await startDaemon({ spool, handler: HANDLER, ini })
  drop(spool, 'runs-1', packet({ hangs: 'yes' }))
  drop(spool, 'later-2', packet({ n: '2' }), LATER + 1)
  drop(spool, 'later-1', packet({ n: '1' }), LATER)
  return { spool, socket, daemon }
}

describe('spoold top --control PATH', { skip: skipUnless('tmux') }, () => {
  it('asks the daemon at PATH, which has no socket in the spool, and acts through it', async () => {
    const { spool, socket, daemon } = await startAside()
    const tmux = new Tmux(100, 24, `exec ${process.execPath} ${BIN} top --control ${socket}`)
    await tmux.waitFor(new RegExp(`^${spool}: pid ${daemon.pid} on`))
    tmux.type('2')
    await tmux.waitFor(/ runs-1$/m)
    tmux.type('3')
    await tmux.waitFor(/as its daemon starts them/)
    await tmux.waitFor(/later-1\n.*later-2/)
    tmux.type('7', 'S')
    await tmux.waitFor(/processes: /)
    tmux.type('2', 'Enter')
    await tmux.waitFor(/2 processes wanted/)
    tmux.type('2')
    await tmux.waitFor(/1 of 1/) // the tab before named the task, too
    tmux.type('C')
    await tmux.waitFor(/cancel runs-1\? y/)
    tmux.type('y')
    await tmux.waitFor(/1 cancelled/)
    assert.deepEqual(
      leftIn(join(spool, '.spoold/dead')).filter(name => !name.endsWith('.json')),
      ['runs-1'],
    )
    daemon.child.kill('SIGTERM')
    await daemon.exited
    await tmux.waitFor(/no daemon answers; this is the directory itself/)
    tmux.type('q')
    await until('top has ended', () => tmux.isOver)
  })

  it('says that nothing answers at PATH, and refuses spools beside it', async () => {
    const spool = spoolDirectory()
    const command = (...args: string[]) =>
      `${process.execPath} ${BIN} top ${args.join(' ')}; echo code $?; exec cat`
    const nobody = new Tmux(100, 24, command('--control', join(spool, 'no.sock')))
    assert.match(await nobody.waitFor(/code [1-9]/), /there is nothing to watch at \S+no\.sock:/)
    const both = new Tmux(100, 24, command('--control', join(spool, 'no.sock'), spool))
    assert.match(await both.waitFor(/code 64/), /the daemon says which spools/)
  })
})

describe('an action of top', { skip: skipUnless('tmux') }, () => {
  it('is done even if it cannot be written to the audit, and top says so', async () => {
    const spool = spoolDirectory()
    drop(spool, 'later-1', packet({ n: '1' }), LATER)
    mkdirSync(join(spool, '.spoold/audit'), { recursive: true, mode: 0o700 })
    const tmux = new Tmux(140, 24, `exec ${process.execPath} ${BIN} top ${spool}`)
    await tmux.waitFor(/no daemon answers/)
    tmux.type('3')
    await tmux.waitFor(/later-1/)
    tmux.type('H')
    await tmux.waitFor(/hold later-1\? y/)
    tmux.type('y')
    await tmux.waitFor(/1 held; .*not in the audit: EISDIR/)
    const { stdout } = await spoold(['ls', '--json', spool])
    assert.match(stdout, /"state":"held"/)
  })
})
