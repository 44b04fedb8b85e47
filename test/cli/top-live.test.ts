import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { readAudit } from '#src/engines/spool/admin/audit.js'
import { spoold } from '../helpers/cli.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import { type DaemonSetup, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { childrenOf } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { Tmux } from '../helpers/tmux.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

const HANDLER = `
import { Tasks } from 'spoold'
export const tasks = new Tasks({ maxRetries: 0 })
tasks.task('slow', { maxConcurrency: 1, maxRetries: 9 }, () => new Promise(() => {}))
tasks.task('broken', () => { throw new Error('no such customer') })
tasks.task('fails', { maxRetries: 9, retryDelay: 3600 }, () => { throw new Error('smtp is down') })
tasks.task('quick', () => {})
`
const call = (name: string, ...args: unknown[]) => packet({ task: name, args: JSON.stringify(args) })
const SIZES = [
  [80, 24],
  [140, 40],
] as const

const command = (...spools: string[]) => `exec ${process.execPath} ${BIN} top ${spools.join(' ')}`

const start = (spool: string, setup: Partial<DaemonSetup> = {}) =>
  startDaemon({
    spool,
    handler: HANDLER,
    ...setup,
    ini: { 'worker-reload-mercy': 1, 'spooler-concurrency': 2, ...setup.ini },
  })

const names = (spool: string) => leftIn(spool).sort()
const deadIn = (spool: string) => leftIn(join(spool, '.spoold/dead')).filter(name => !name.endsWith('.json'))

/** Starts a daemon with a task in each state: running, waiting for its slot, retrying, dead, held, later, unknown. */
async function furnished(spool: string) {
  const daemon = await start(spool, { ini: { 'spooler-processes': 2, 'spooler-cheaper': 1 } })
  drop(spool, 'slow-1', call('slow'))
  await until('the first task runs', async () => (await spoolSnapshotOf(spool)).tasks.running === 1)
  drop(spool, 'slow-2', call('slow'))
  drop(spool, 'fails-1', call('fails'))
  for (const name of ['broken-1', 'broken-2']) drop(spool, name, call('broken', 'secret'))
  drop(spool, 'lost-1', call('nobody'))
  drop(spool, 'later-1', call('quick'), 4_000_000_000)
  drop(spool, 'held-1', call('quick'), 4_000_000_000)
  await spoold(['hold', join(spool, 'held-1')])
  await until('all tasks are in their states', async () => {
    const { parked } = (await spoolSnapshotOf(spool)).tasks
    return parked.slot === 1 && parked['unknown-name'] === 1 && deadIn(spool).length === 2
  })
  return daemon
}

describe('spoold top', { skip: skipUnless('tmux'), concurrency: 3 }, () => {
  for (const [columns, rows] of SIZES)
    it(`shows every tab at ${columns} × ${rows}, and every key does what it says`, async () => {
      const spool = spoolDirectory()
      const daemon = await furnished(spool)
      const tmux = new Tmux(columns, rows, command(spool))
      const overview = await tmux.waitFor(/1 running.*2 dead/)
      assert.match(overview, new RegExp(`^${spool}: pid ${daemon.pid} on \\S+, running for `))
      tmux.type('2')
      await tmux.waitFor(/PID.*TASK.*NAME\n.*\d+ +slow +slow-1/)
      tmux.type('Right')
      await tmux.waitFor(/^ ?waiting +\d+ d .*quick +later-1/m)
      tmux.type('Tab')
      await tmux.waitFor(/^ +(59 m|60 m) +1 +fails +Error: smtp.* fails-1/m)
      tmux.type('5')
      await tmux.waitFor(/(attempts +1 +broken .*){2}/s)
      tmux.type('6')
      const held = await tmux.waitFor(/^ ?held .*held-1/m)
      assert.match(held, /^ ?parked .*no hand.* lost-1/m)
      assert.match(held, /^ ?parked .*1 of slow.* slow-2/m)
      tmux.type('7')
      await tmux.waitFor(/MEMORY.*ready .* slow-1/s)
      tmux.type('8')
      await tmux.waitFor(/^ ?slow +1 +1 .*1$/m)
      tmux.type('9')
      await tmux.waitFor(/^none/m)
      tmux.type('1')
      await tmux.waitFor(/2 dead/)
      tmux.type('4')
      await tmux.waitFor(/smtp.* fails-1/)
      tmux.type('3')
      await tmux.waitFor(/quick +later-1/)
      tmux.type('9')
      await tmux.waitFor(/^none/m)
      tmux.type('BTab')
      await tmux.waitFor(/RETRYING +DEAD/)
      tmux.type('Left')
      await tmux.waitFor(/MEMORY/)
      tmux.type('?')
      await tmux.waitFor(/R {2}requeue/)
      tmux.type('Escape')
      await tmux.waitFor(/MEMORY/)

      tmux.type('5')
      await tmux.waitFor(/broken-1/)
      tmux.type('Enter')
      assert.match(await tmux.waitFor(/the last error/), /secret/)
      tmux.type('q')
      await tmux.waitFor(/1 of 2/)
      tmux.type('/')
      tmux.typeText('broken-2x')
      tmux.type('BSpace', 'Enter')
      const filtered = await tmux.waitFor(/1 of 1/)
      assert.ok(filtered.includes('broken-2') && !filtered.includes('broken-1'))
      tmux.type('Escape')
      await tmux.waitFor(/1 of 2/)
      tmux.type('Space')
      await tmux.waitFor(/1 selected/)
      tmux.type('*')
      await tmux.waitFor(/2 selected/)
      tmux.type('*', 'j')
      await tmux.waitFor(/2 of 2/)
      tmux.type('k', 'Down', 'Up', 'NPage', 'PPage', 'End', 'Home')
      await tmux.waitFor(/1 of 2/)
      tmux.type('r', 'C-l', 'w')
      await tmux.waitFor(/w does nothing here/)
      tmux.type('q')
      await until('top has ended', () => tmux.isOver)
    })

  for (const [columns, rows] of SIZES)
    it(`acts on capital letters at ${columns} × ${rows}, after a yes`, async () => {
      const spool = spoolDirectory()
      await furnished(spool)
      const tmux = new Tmux(columns, rows, command(spool))
      await tmux.waitFor(/1 running/)
      const act = async (tab: string, seen: RegExp, key: string, asked: RegExp, outcome: RegExp) => {
        tmux.type(tab)
        await tmux.waitFor(seen)
        tmux.type(key)
        await tmux.waitFor(asked)
        tmux.type('y')
        await tmux.waitFor(outcome)
      }
      const one = async (tab: string, name: string, key: string, verb: string, done: string) => {
        tmux.type(tab)
        await tmux.waitFor(new RegExp(name))
        tmux.type('/')
        tmux.typeText(name)
        tmux.type('Enter')
        await tmux.waitFor(new RegExp(`/${name}; 1 of 1`))
        tmux.type(key)
        await tmux.waitFor(new RegExp(`${verb} ${name}.*\\? y/N`))
        tmux.type('y')
        await tmux.waitFor(new RegExp(`^1 ${done}`, 'm'))
        const [entry] = readAudit(spool, 1)
        assert.deepEqual([entry?.action, entry?.role, entry?.count], [verb, 'owner', 1])
        assert.match(entry?.task ?? '', new RegExp(`^(\\.spoold/dead/)?${name}$`))
      }
      tmux.type('5')
      await tmux.waitFor(/1 of 2/)
      tmux.type('*', 'D')
      await tmux.waitFor(/remove 2 tasks for good\? y\/N/)
      tmux.type('n')
      await tmux.waitFor(/nothing was done/)
      assert.equal(deadIn(spool).length, 2)
      assert.deepEqual(
        readAudit(spool, 9).map(({ action }) => action),
        ['hold'],
        'the audit has only what the test itself did',
      )
      await act('3', /later-1/, 'R', /requeue is for tasks that are dead/, /./)
      await one('3', 'later-1', 'H', 'hold', 'held')
      await one('6', 'later-1', 'L', 'release', 'released')
      await one('3', 'later-1', 'K', 'kick', 'kicked')
      await until('the task has run', () => !names(spool).includes('later-1'))
      await one('6', 'held-1', 'B', 'bury', 'buried')
      await until('the task is dead', () => deadIn(spool).includes('held-1'))
      await one('4', 'fails-1', 'D', 'remove', 'removed')
      assert.ok(!names(spool).includes('fails-1'))
      await one('5', 'broken-1', 'D', 'remove', 'removed')
      await one('5', 'held-1', 'R', 'requeue', 'requeued')
      await until(
        'the task has run',
        () => !names(spool).includes('held-1') && !deadIn(spool).includes('held-1'),
      )
      await act('8', /nobody/, 'P', /pause tasks named \S+\? y/, /paused/)
      tmux.type('1')
      await tmux.waitFor(/workers/)
      await act('8', /nobody/, 'U', /resume tasks named \S+\? y/, /resumed/)
      await act('1', /workers/, 'P', /pause all tasks of .*\? y/, /paused/)
      await until(
        'the daemon knows the pause',
        async () => (await spoolSnapshotOf(spool)).paused.pauses.length === 1,
      )
      await act('1', /workers/, 'U', /resume all that is paused/, /resumed/)
      tmux.type('7', 'S')
      await tmux.waitFor(/processes: /)
      tmux.type('2', 'Enter')
      await until('two processes are wanted', async () => {
        const { wanted, size } = (await spoolSnapshotOf(spool)).processes
        return wanted === 2 && size.isByHand
      })
      await one('2', 'slow-1', 'C', 'cancel', 'cancelled')
      await until('the cancelled task is dead', () => deadIn(spool).includes('slow-1'))
      const onSpool = readAudit(spool, 99).filter(({ task }) => task === undefined)
      assert.deepEqual(
        onSpool.reverse().map(({ action, filter }) => [action, filter?.replace(/=\w+/, '=NAME')]),
        [
          ['pause', '{"key":"task=NAME"}'],
          ['resume', '{"key":"task=NAME"}'],
          ['pause', undefined],
          ['resume', '{"all":"on"}'],
          ['scale', '{"to":"2"}'],
        ],
      )
      tmux.type('C-c')
      await until('top has ended', () => tmux.isOver)
    })

  it('says that no daemon answers, shows the directory, and finds the next daemon', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool)
    drop(spool, 'later-1', call('quick'), 4_000_000_000)
    const tmux = new Tmux(80, 24, command(spool))
    await tmux.waitFor(new RegExp(`pid ${daemon.pid} on`))
    daemon.child.kill('SIGTERM')
    await daemon.exited
    await tmux.waitFor(/spool: no daemon answers; this is the directory itself$/m)
    tmux.type('3')
    await tmux.waitFor(/later-1/)
    const next = await start(spool)
    await tmux.waitFor(new RegExp(`pid ${next.pid} on`))
    tmux.type('q')
    await until('top has ended', () => tmux.isOver)
  })

  it('fits the terminal after its size has changed, however small it is', async () => {
    const spool = spoolDirectory()
    drop(spool, 'later-1', call('quick'), 4_000_000_000)
    const tmux = new Tmux(80, 24, command(spool))
    await tmux.waitFor(/no daemon answers/)
    tmux.resize(140, 40)
    await tmux.waitFor(/6 Held and parked/)
    tmux.resize(20, 5)
    await until('the long names of tabs are gone', () => !tmux.screen().includes('Held and parked'))
    tmux.resize(80, 24)
    await tmux.waitFor(/6 Held 7/)
    tmux.type('q')
    await until('top has ended', () => tmux.isOver)
  })

  for (const [how, end] of [
    ['q', (tmux: Tmux) => tmux.type('q')],
    ['SIGTERM', (_tmux: Tmux, pid: number) => process.kill(pid, 'SIGTERM')],
    ['SIGHUP', (_tmux: Tmux, pid: number) => process.kill(pid, 'SIGHUP')],
    ['an error that nobody catches', (_tmux: Tmux, pid: number) => process.kill(pid, 'SIGUSR2')],
  ] as const)
    it(`gives the terminal back as it was, after ${how}`, async () => {
      const spool = spoolDirectory()
      const crash = join(dirname(spool), 'crash.cjs')
      writeFileSync(crash, "process.on('SIGUSR2', () => { throw new Error('for the test') })")
      const tmux = new Tmux(80, 24, 'exec sh', { PS1: 'shell> ', NODE_OPTIONS: `--require ${crash}` })
      await tmux.waitFor(/[#$>]/)
      tmux.typeText(
        `${command(spool).replace('exec', 'echo before;')}; echo ended $?; stty -a | grep -o ' .\\?icanon'`,
      )
      tmux.type('Enter')
      await tmux.waitFor(/no daemon answers/)
      assert.deepEqual([tmux.fact('alternate_on'), tmux.fact('cursor_flag')], ['1', '0'])
      const pid = await until('top is the child of the shell', () => childOf(Number(tmux.fact('pane_pid'))))
      end(tmux, pid)
      const screen = await tmux.waitFor(/ icanon/)
      assert.match(screen, /^before\n(.*\n)*ended \d+\n icanon$/m)
      assert.deepEqual([tmux.fact('alternate_on'), tmux.fact('cursor_flag')], ['0', '1'])
    })

  it('is suspended by Ctrl-Z and continued by fg', async () => {
    const spool = spoolDirectory()
    const tmux = new Tmux(80, 24, 'exec bash --norc --noprofile -i', { PS1: 'shell> ' })
    await tmux.waitFor(/[#$>]/)
    tmux.typeText(command(spool).replace('exec ', ''))
    tmux.type('Enter')
    await tmux.waitFor(/no daemon answers/)
    for (let i = 0; i < 2; i++) {
      tmux.type('C-z')
      await tmux.waitFor(/Stopped/)
      assert.deepEqual([tmux.fact('alternate_on'), tmux.fact('cursor_flag')], ['0', '1'])
      tmux.typeText('echo $((6 * 7)); clear; fg')
      tmux.type('Enter')
      await tmux.waitFor(/no daemon answers/)
      assert.equal(tmux.fact('alternate_on'), '1')
    }
    tmux.type('q')
    await until('top has ended', () => tmux.fact('alternate_on') === '0')
  })

  it('has colors unless NO_COLOR is set', async () => {
    const spool = spoolDirectory()
    for (const [env, isPainted] of [
      [{}, true],
      [{ NO_COLOR: '1' }, false],
    ] as const) {
      const tmux = new Tmux(80, 24, command(spool), env)
      await tmux.waitFor(/no daemon answers/)
      // biome-ignore lint/suspicious/noControlCharactersInRegex: styles
      assert.equal(/\x1b\[[12]m/.test(tmux.screen(true)), isPainted)
      tmux.close()
    }
  })

  it('shows control characters of names as text', async () => {
    const spool = spoolDirectory()
    drop(spool, 'a\x1b]0;evil\x07\x1b[2J', packet({ task: 'x\x1b[31m\u202e', args: '[]' }))
    const tmux = new Tmux(140, 24, command(spool))
    await tmux.waitFor(/no daemon answers/)
    tmux.type('3')
    const screen = await tmux.waitFor(/a\\x1b\]0;evil\\x07\\x1b\[2J/)
    assert.match(screen, /x\\x1b\[31m\\u202e/)
    assert.doesNotMatch(tmux.fact('pane_title'), /evil/)
  })

  it('shows no value of a key that spooler-hide names, and finds none by a filter', async () => {
    const spool = spoolDirectory()
    await start(spool, { ini: { 'spooler-hide': 'password' } })
    drop(spool, 'later-1', packet({ task: 'quick', args: '[]', password: 'zq-31' }), 4_000_000_000)
    const tmux = new Tmux(80, 24, command(spool))
    await tmux.waitFor(/pid \d+ on/)
    tmux.type('3')
    await tmux.waitFor(/later-1/)
    tmux.type('Enter')
    assert.doesNotMatch(await tmux.waitFor(/password/), /zq-31/)
    tmux.type('q', '/')
    tmux.typeText('zq-31')
    tmux.type('Enter')
    await tmux.waitFor(/none with this text/)
  })

  it('requires a terminal that it can draw on, and names spoold status otherwise', async () => {
    const spool = spoolDirectory()
    const piped = await spoold(['top', spool])
    assert.equal(piped.code, 64)
    assert.match(piped.stderr, /\[USAGE\] top needs a terminal; spoold status says the same/)
    const tmux = new Tmux(80, 24, `${command(spool).replace('exec ', 'TERM=dumb ')}; echo code $?; exec cat`)
    assert.match(await tmux.waitFor(/code 64/), /cannot draw on this terminal \(TERM=dumb\); spoold status/)
  })
})

/** Returns the child of a process if it has exactly one. */
function childOf(pid: number): number | undefined {
  const children = childrenOf(pid)
  return children.length === 1 ? children[0] : undefined
}
