import { chmodSync, lchownSync, mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { listen } from '#src/doors/net/listen.js'
import { Opener } from '#src/system/opener.js'
import { Canaries, giveAway, USER } from '../helpers/canaries.js'
import { spoold } from '../helpers/cli.js'
import { startDaemon, writeIni } from '../helpers/daemon.js'
import { exchangeNames } from '../helpers/exchanger.js'
import { drop } from '../helpers/files.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

const LASTS_MS = isLong ? 20_000 : 1000

/**
 * A spool whose owner keeps swapping a priority directory and `.spoold` for links to a directory of root. Both sides have
 * the same names, so that whoever goes by a path finds something to open, to change and to remove there.
 */
class Trap {
  readonly spool = spoolDirectory()
  readonly outside: Canaries

  constructor() {
    chmodSync(dirname(this.spool), 0o755)
    this.outside = new Canaries(join(dirname(this.spool), 'outside'), ['uwsgi_spoolfile_on_x'])
  }

  /** Makes tasks, dead letters and leftovers, so that every command has something to do. */
  fill(): void {
    for (const name of ['7', '.spoold', '.spoold/dead', '.spoold/records', '.spoold/locks', '.spoold/ids'])
      mkdirSync(join(this.spool, name), { recursive: true, mode: 0o700 })
    for (const name of ['7/victim', 'uwsgi_spoolfile_on_x', '.spoold/dead/victim', '7/.spoold-victim.tmp'])
      drop(this.spool, name)
    chmodSync(join(this.spool, '7/victim'), 0)
    giveAway(this.spool)
  }

  async set(): Promise<{ end(): Promise<void> }> {
    const [link, state] = [join(this.spool, '.link'), join(this.spool, '.state')]
    symlinkSync(this.outside.path, state)
    symlinkSync(join(this.outside.path, '7'), link)
    const exchanger = await exchangeNames(USER, [
      [join(this.spool, '7'), link],
      [join(this.spool, '.spoold'), state],
    ])
    return {
      end: async () => {
        exchanger.child.kill('SIGKILL')
        await exchanger.exited
      },
    }
  }
}

/** Gives a task to the user, unless it has run already. */
function giveTask(path: string): void {
  try {
    lchownSync(path, USER, USER)
  } catch {}
}

/** Calls `act` again and again for LASTS_MS, at least once. */
async function again(act: () => Promise<unknown>): Promise<void> {
  const end = performance.now() + LASTS_MS
  do await act()
  while (performance.now() < end)
}

describe('root, while the owner of a directory swaps a new socket for a symbolic link', {
  skip: skipUnless('root', 'python3'),
}, () => {
  it('gives no other file the mode and the owner of the socket', async () => {
    const home = workspace()
    chmodSync(home, 0o755)
    const outside = new Canaries(join(home, 'outside'))
    const directory = join(home, 'run')
    mkdirSync(directory)
    lchownSync(directory, USER, USER)
    const path = join(directory, 'app.sock')
    const link = join(directory, '.link')
    const settings = {
      backlog: 8,
      mode: 0o666,
      owner: { uid: 7, gid: 12 },
      files: new Opener(null),
      accept() {},
    }
    const exchanger = await exchangeNames(USER, [[join(directory, '.app.sock.*'), link]])
    let exchanged = 0
    await until(
      'the link has been in the place of the new socket 20 times',
      async () => {
        for (const name of readdirSync(directory)) rmSync(join(directory, name), { force: true })
        symlinkSync(join(outside.path, 'victim'), link)
        try {
          const listener = await listen({ kind: 'unix', path }, settings)
          listener.close()
        } catch (error) {
          if (/is no longer a socket of ours/.test(String(error))) exchanged++
        }
        return exchanged >= 20
      },
      60_000,
    )
    exchanger.child.kill('SIGKILL')
    await exchanger.exited
    outside.assertUntouched('a socket')
  })
})

describe('root, while the owner of a spool swaps its directories for symbolic links', {
  skip: skipUnless('root', 'python3'),
}, () => {
  const COMMANDS: ReadonlyArray<readonly [string, (spool: string) => readonly string[]]> = [
    ['fsck --repair', spool => ['fsck', '--repair', spool]],
    ['rm', spool => ['rm', join(spool, '7/victim'), join(spool, 'uwsgi_spoolfile_on_x')]],
    ['rm --all', spool => ['rm', '--all', spool]],
    ['hold', spool => ['hold', '--all', spool]],
    ['release', spool => ['release', '--all', spool]],
    ['kick', spool => ['kick', '--all', spool]],
    ['requeue', spool => ['requeue', '--all', spool]],
    ['purge', spool => ['purge', '--all', spool]],
    ['enqueue', spool => ['enqueue', '--spooler', spool, '--priority', '7', '--id', 'x', 'a=b']],
    ['ls', spool => ['ls', spool]],
    ['show', spool => ['show', join(spool, '7/victim')]],
  ]
  for (const [what, args] of COMMANDS)
    it(`changes nothing outside the spool by ${what}`, async () => {
      const trap = new Trap()
      trap.fill()
      const { end } = await trap.set()
      await again(() => spoold(args(trap.spool)))
      await end()
      trap.outside.assertUntouched(what)
    })

  it('changes nothing outside the spool by any command, even if the spool itself is swapped', async () => {
    const home = workspace()
    chmodSync(home, 0o755)
    const outside = new Canaries(join(home, 'outside'), ['uwsgi_spoolfile_on_x', 'package.json'])
    const theirs = join(home, 'theirs')
    const target = spoolDirectory()
    giveAway(target)
    const [spool, link] = [join(theirs, 'spool'), join(theirs, '.link')]
    mkdirSync(join(spool, '7'), { recursive: true })
    for (const name of ['7/victim', 'uwsgi_spoolfile_on_x', 'package.json']) drop(spool, name)
    chmodSync(join(spool, 'package.json'), 0)
    giveAway(theirs)
    symlinkSync(outside.path, link)
    lchownSync(link, USER, USER)
    const exchanger = await exchangeNames(USER, [[spool, link]])
    const more: typeof COMMANDS = [
      ['status', spool => ['status', spool]],
      ['pause', spool => ['pause', spool, '--name', 'x']],
      ['resume', spool => ['resume', spool]],
      ['move', spool => ['move', '--all', '--to', target, spool]],
    ]
    await again(async () => {
      for (const [, args] of [...COMMANDS, ...more]) await spoold(args(spool))
    })
    exchanger.child.kill('SIGKILL')
    await exchanger.exited
    outside.assertUntouched('an exchanged spool')
  })

  it('changes nothing outside the spool by a move', async () => {
    const trap = new Trap()
    trap.fill()
    const target = spoolDirectory()
    giveAway(target)
    const { end } = await trap.set()
    await again(() => spoold(['move', '--all', '--to', target, trap.spool]))
    await end()
    trap.outside.assertUntouched('move')
  })

  for (const masterAsRoot of [false, true])
    it(`changes nothing outside the spool by starts, reloads, runs, sweeps and purges${masterAsRoot ? ', with master-as-root' : ''}`, async () => {
      const trap = new Trap()
      trap.fill()
      const { end } = await trap.set()
      const ini = {
        uid: USER,
        gid: USER,
        'master-as-root': masterAsRoot,
        'spooler-ordered': true,
        'spooler-frequency': 1,
        'spooler-sweep': 1,
        'spooler-dead-max-count': 1,
        'spooler-lock': masterAsRoot ? 'lockfile' : 'auto',
        timer: '1 1',
      }
      await again(async () => {
        const daemon = await startDaemon({ spool: trap.spool, ini, isUnready: true })
        await daemon.waitFor(/is running/).catch(() => {}) // it may be refused
        for (let i = 0; i < 3 && daemon.isRunning; i++) {
          drop(trap.spool, `uwsgi_spoolfile_on_more_${i}`)
          giveTask(join(trap.spool, `uwsgi_spoolfile_on_more_${i}`))
          daemon.child.kill('SIGHUP')
          await daemon
            .waitFor(new RegExp(`(?:are reloaded[^]*|is rejected[^]*){${i + 1}}`), 3000)
            .catch(() => {})
        }
        daemon.child.kill('SIGTERM')
        await daemon.code()
      })
      await end()
      trap.outside.assertUntouched('a daemon')
    })

  it('changes nothing outside the spool by doctor', async () => {
    const trap = new Trap()
    trap.fill()
    const ini = join(dirname(trap.spool), 'app.ini')
    writeIni(ini, { spooler: trap.spool, uid: USER, gid: USER })
    const { end } = await trap.set()
    await again(() => spoold(['doctor', ini]))
    await end()
    trap.outside.assertUntouched('doctor')
  })
})
