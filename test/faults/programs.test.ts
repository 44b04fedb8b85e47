import assert from 'node:assert/strict'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { readLocks } from '#src/system/files/lock-table.js'
import { spoold } from '../helpers/cli.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn } from '../helpers/files.js'
import { childrenOf, isAlive } from '../helpers/process.js'
import { isLong } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** A program that ticks until the file `enough` is there; each line is one write to the end of the file. */
const TICKING = `
tick() { until [ -e $1/enough ] || [ ! -d $1 ]; do echo "tick $$" >> $1/runs; sleep 0.02; done; }
echo "begin $$" >> $1/runs
`
const TICKS = `${TICKING} tick $1; echo "end $$" >> $1/runs`

/** @param more a further part of the command, with which the shell that runs the program stays */
function start(spool: string, program: string, ini = {}, more = ''): Promise<Daemon> {
  const directory = dirname(spool)
  const file = join(directory, 'program.sh')
  writeFileSync(file, program)
  const settings = { 'spooler-exec': `sh ${file} ${directory}${more}`, 'spooler-frequency': 1, ...ini }
  return startDaemon({ spool, isForeign: true, ini: settings })
}

function runs(spool: string): string[] {
  try {
    return readFileSync(join(dirname(spool), 'runs'), 'utf8')
      .split('\n')
      .filter(Boolean)
  } catch {
    return []
  }
}

const begun = (spool: string) => runs(spool).filter(line => line.startsWith('begin '))
const lastPid = (spool: string) => Number(begun(spool).at(-1)?.split(' ')[1])
const letEnd = (spool: string) => writeFileSync(join(dirname(spool), 'enough'), '')

/** Checks that no earlier run says anything after a later one has begun. */
function assertNoOverlap(spool: string): void {
  let running: string | undefined
  for (const line of runs(spool)) {
    const [what, pid] = line.split(' ')
    if (what === 'begin') running = pid
    assert.equal(pid, running, runs(spool).join('\n'))
  }
}

const untilBegun = (spool: string, times: number) =>
  until(`${times} runs have begun`, () => begun(spool).length >= times)

const kill = (pid: number, signal: NodeJS.Signals = 'SIGKILL') => process.kill(pid, signal)

/** Ways to end the worker of a running program, after which it is dead, whoever else is stopped. */
const ATTACKS: Record<string, (daemon: Daemon) => void> = {
  'master and worker are killed': daemon => {
    const workers = daemon.workers()
    for (const pid of [daemon.pid, ...workers]) kill(pid)
  },
  'the master is killed, and then the worker': daemon => {
    const workers = daemon.workers()
    kill(daemon.pid)
    for (const pid of workers) kill(pid)
  },
  'the worker is killed while the master is stopped': daemon => {
    kill(daemon.pid, 'SIGSTOP')
    for (const pid of daemon.workers()) kill(pid)
  },
}

describe('two programs of one task never run at once', () => {
  for (const [name, attack] of Object.entries(ATTACKS)) {
    it(`when ${name}`, async () => {
      const spool = spoolDirectory()
      const daemon = await start(spool, TICKS)
      drop(spool)
      await untilBegun(spool, 1)
      attack(daemon)
      await start(spool, TICKS)
      await untilBegun(spool, 2)
      const ticks = runs(spool).length
      await until('the second run goes on', () => runs(spool).length > ticks + 5)
      letEnd(spool)
      await until('the task is done', () => leftIn(spool).length === 0)
      assertNoOverlap(spool)
      assert.equal(begun(spool).length, 2)
    })

    it(`when ${name}: an at-most-once task does not begin again`, async () => {
      const spool = spoolDirectory()
      const once = { 'spooler-delivery': 'at-most-once' }
      const daemon = await start(spool, TICKS, once)
      drop(spool)
      await untilBegun(spool, 1)
      attack(daemon)
      const next = await start(spool, TICKS, once)
      await next.waitFor(/is buried: its process died; it may have done its work/)
      await until('the program is gone', () => !isAlive(lastPid(spool)))
      assert.equal(begun(spool).length, 1)
    })

    it(`when ${name}: under leases the program is killed, too`, async () => {
      const spool = spoolDirectory()
      const daemon = await start(spool, TICKS, { 'spooler-lock': 'lockfile' })
      drop(spool)
      await untilBegun(spool, 1)
      attack(daemon)
      await until('the program is gone', () => !isAlive(lastPid(spool)))
    })
  }

  for (const [killed, pid, more] of [
    ['program', '$$', ''],
    ['shell of a program', '$PPID', ' && :'],
    ['program of a shell', '$$', ' && :'],
  ] as const)
    it(`when a ${killed} is killed: an at-most-once task does not begin again`, async () => {
      const spool = spoolDirectory()
      const program = `echo "begin $$" >> $1/runs; kill -KILL ${pid}; sleep 1`
      const daemon = await start(spool, program, { 'spooler-delivery': 'at-most-once' }, more)
      drop(spool)
      await daemon.waitFor(
        /is buried: the program (was killed by SIGKILL|exited with code 137); it may have done its work/,
      )
      assert.equal(begun(spool).length, 1)
    })

  it('when the worker is stopped and loses its lease', {
    skip: isLong ? false : 'takes a minute',
  }, async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool, TICKS, { 'spooler-lock': 'lockfile' })
    drop(spool)
    await untilBegun(spool, 1)
    const workers = daemon.workers()
    for (const pid of workers) kill(pid, 'SIGSTOP')
    const next = await start(spool, TICKS, { 'spooler-lock': 'lockfile' })
    await until('the task runs elsewhere', () => begun(spool).length === 2, 90_000)
    for (const pid of workers) kill(pid, 'SIGCONT')
    const ticks = runs(spool).length
    await until('the second run goes on', () => runs(spool).length > ticks + 50)
    assertNoOverlap(spool)
    assert.ok(next.isRunning)
  })

  it('when the master alone is killed: its worker waits for the program', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool, TICKS)
    drop(spool)
    await untilBegun(spool, 1)
    kill(daemon.pid)
    const next = await start(spool, TICKS)
    drop(spool, 'another')
    await until('the other task runs', () => begun(spool).length === 2)
    letEnd(spool)
    await until('both tasks are done', () => leftIn(spool).length === 0)
    assert.equal(begun(spool).length, 2)
    assert.doesNotMatch(next.output, /crash|failed/)
  })

  it('when a process of the program left its group: the log and show name who still holds the lock', async () => {
    const spool = spoolDirectory()
    const program = `${TICKING}
      setsid sh -c 'until [ -e "$0/enough" ] || [ ! -d "$0" ]; do sleep 0.02; done' $1 & echo "$!" > $1/escaped; wait`
    const daemon = await start(spool, program)
    const path = drop(spool, 'held')
    await untilBegun(spool, 1)
    const escaped = await until('the process has left the group', () => {
      const { dev, ino } = statSync(path)
      const file = join(dirname(spool), 'escaped')
      const pid = existsSync(file) ? Number(readFileSync(file, 'utf8')) : 0
      return pid > 0 && readLocks().isHeld(dev, ino) && groupOf(pid) === pid && pid
    })
    const workers = daemon.workers()
    for (const pid of [daemon.pid, ...workers]) kill(pid)
    await until('the program is gone', () => !isAlive(lastPid(spool)))
    const next = await start(spool, program)
    // The command that the process runs at the moment has the descriptor, too, and is in its group while it lives.
    const { stdout } = await spoold(['show', path])
    assert.match(stdout, /by process \d+\b/)
    const holder = Number(/by process (\d+)/.exec(stdout)?.[1])
    assert.ok(holder === escaped || groupOf(holder) === escaped || !isAlive(holder), `process ${holder}`)
    await next.waitFor(
      new RegExp(
        `task held has been locked for \\d+.*s by process (${escaped} \\(sh -c until|\\d+ \\(sleep)`,
      ),
      30_000,
    )
    assert.equal(begun(spool).length, 1)
    letEnd(spool)
    await until('the task runs again', () => begun(spool).length === 2)
  })
})

/** Returns undefined if the process is gone. */
function groupOf(pid: number): number | undefined {
  try {
    const [, , group] = readFileSync(`/proc/${pid}/stat`, 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ')
    return Number(group)
  } catch {
    return undefined
  }
}

describe('a process that a program leaves behind', () => {
  it('is killed when the program has ended, if it is in the group of the program', async () => {
    const spool = spoolDirectory()
    await start(spool, 'sleep 3600 & echo $! > $1/background; exit 0')
    drop(spool)
    await until('the task is done', () => leftIn(spool).length === 0)
    const pid = Number(readFileSync(join(dirname(spool), 'background'), 'utf8'))
    await until('the process is gone', () => !isAlive(pid))
  })

  it('does not keep the lock of a task that is settled', async () => {
    const spool = spoolDirectory()
    const program = `echo "begin $$" >> $1/runs; [ -e $1/enough ] && exit 0
      setsid sh -c 'until [ -e "$0/enough" ] || [ ! -d "$0" ]; do sleep 0.02; done' $1 & exit 75`
    await start(spool, program, { 'spooler-retry-delay': 1 })
    drop(spool)
    await untilBegun(spool, 2)
    letEnd(spool)
    await until('the task is done', () => leftIn(spool).length === 0)
  })

  it('is gone after the daemon has stopped', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool, 'exit 0', { 'spooler-max-tasks': 2 })
    const watchers = new Set<number>()
    for (let i = 0; i < 6; i++) {
      drop(spool)
      await until('the task is done', () => {
        for (const worker of daemon.workers()) for (const pid of childrenOf(worker)) watchers.add(pid)
        return leftIn(spool).length === 0
      })
    }
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    await until('all of the processes are gone', () => ![...watchers].some(isAlive))
  })
})
