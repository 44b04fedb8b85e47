import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { smallDisk } from '../helpers/small-disk.js'
import { until } from '../helpers/until.js'
import { deadOf } from '../helpers/witness.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

const LONG_AGO = 1_000_000_000
/** Kills its process for each task that is named `poison`. */
const HANDLER = `export default (env, task) => {
  JOURNAL(env.n)
  if (env.n.startsWith('poison')) process.kill(process.pid, 'SIGKILL')
  return task.SPOOL_OK
}`

/** Makes a spool on another file system, reached from a directory where the daemon's other files have room. */
function spoolOn(disk: string): string {
  const spool = join(disk, 'spool')
  mkdirSync(spool)
  return spool
}

function startOn(spool: string, handler = HANDLER, ini: Readonly<Record<string, string | number>> = {}) {
  const link = join(workspace(), 'spool')
  execFileSync('ln', ['-s', spool, link])
  return startDaemon({ spool: link, handler, ini: { 'spooler-frequency': 1, ...ini } })
}

/** Mounts an ext4 whose inodes have no room for fractions of seconds. */
function coarseDisk(): string {
  const directory = workspace()
  const [image, mounted] = [join(directory, 'image'), join(directory, 'disk')]
  closeSync(openSync(image, 'w'))
  truncateSync(image, 16 * 1024 * 1024)
  execFileSync('mkfs.ext4', ['-q', '-F', '-I', '128', image], { stdio: 'ignore' })
  mkdirSync(mounted)
  execFileSync('mount', ['-o', 'loop', image, mounted])
  after(() => execFileSync('umount', ['-l', mounted]))
  return mounted
}

const canLoop = existsSync('/dev/loop-control') && existsSync('/usr/sbin/mkfs.ext4')

/** Checks that poison runs as often as it may, whatever the file system knows of times. */
async function countsRight(spool: string, act: () => void = () => {}): Promise<void> {
  const daemon = await startOn(spool)
  act()
  for (const n of ['poison-1', 'poison-2']) drop(spool, n, packet({ n }), LONG_AGO)
  drop(spool, 'poison-young', packet({ n: 'poison-young' }))
  for (const n of ['good-1', 'good-2', 'good-3']) drop(spool, n, packet({ n }))
  await until('all tasks have run, or are buried', () => leftIn(spool).length === 0, 60_000)
  const runs = new Map<string, number>()
  for (const n of daemon.journal()) runs.set(n, (runs.get(n) ?? 0) + 1)
  const dead = await deadOf(spool)
  assert.equal(dead.size, 3)
  for (const [, letter] of dead) assert.deepEqual([letter.reason, letter.crashes], ['crashes', 3])
  for (const [n, count] of runs) assert.equal(count, n.startsWith('poison') ? 3 : 1, n)
}

describe('a task that kills its process runs three times', { skip: skipUnless('root', 'mount') }, () => {
  it('even if access times are switched off while the daemon runs', async () => {
    const disk = smallDisk('size=2m')
    await countsRight(spoolOn(disk), () => execFileSync('mount', ['-o', 'remount,noatime', disk]))
  })

  it('even if times are whole seconds', { skip: canLoop ? false : 'no loop devices' }, async () => {
    await countsRight(spoolOn(coarseDisk()))
  })

  it('even if somebody reads every file all the time', async () => {
    const spool = spoolDirectory()
    const reader = setInterval(() => {
      for (const name of readdirSync(spool))
        try {
          readFileSync(join(spool, name))
        } catch {} // the file is gone, or is a directory
    }, 5)
    try {
      await countsRight(spool)
    } finally {
      clearInterval(reader)
    }
  })
})

describe('a disk that becomes read-only', { skip: skipUnless('root', 'mount') }, () => {
  it('is named in one line, keeps the due tasks, and runs them all once it can be written again', async () => {
    const disk = smallDisk('size=2m')
    const spool = spoolOn(disk)
    const daemon = await startOn(spool)
    const soon = Date.now() / 1000 + 2
    const names = Array.from({ length: 20 }, (_, i) => `task-${i}`)
    for (const n of names) drop(spool, n, packet({ n }), soon)
    execFileSync('mount', ['-o', 'remount,ro', disk])
    await daemon.waitFor(/task-\d+ is left alone, as all others here: EROFS/)
    await until('every task was refused', async () => {
      const { stdout } = await spoold(['status', '--json', spool])
      return JSON.parse(stdout).spools[0].tasks.unreadable === names.length
    })
    assert.deepEqual(daemon.journal(), [])
    assert.equal(daemon.output.split('is left alone').length, 2)
    execFileSync('mount', ['-o', 'remount,rw', disk])
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal().sort(), names.sort())
  })
})

describe('a task that is delivered at most once runs once', { skip: skipUnless('root', 'mount') }, () => {
  const WAITS = `import { existsSync } from 'node:fs'
    import { setTimeout } from 'node:timers/promises'
    export default async (env, task) => {
      JOURNAL(env.n)
      while (!existsSync(env.gate)) await setTimeout(20)
      return env.n === 'bury' ? { bury: 'so' } : task.SPOOL_OK
    }`

  for (const n of ['ok', 'bury'])
    it(`even if its directory is immutable while it runs, and writable again afterwards (${n})`, async () => {
      const disk = smallDisk('size=2m')
      const spool = spoolOn(disk)
      const gate = join(workspace(), 'gate')
      const daemon = await startOn(spool, WAITS)
      drop(spool, n, packet({ n, gate, spooler_delivery: 'at-most-once' }))
      await until('the task runs', () => daemon.journal().length === 1)
      execFileSync('chattr', ['+i', spool]) // which root cannot pass, as it passes every mode
      closeSync(openSync(gate, 'w'))
      await daemon.waitFor(
        n === 'ok' ? /has finished, but its file cannot be removed/ : /is to be buried, but cannot be/,
      )
      execFileSync('chattr', ['-i', spool])
      drop(spool, 'second', packet({ n: 'second', gate }))
      await until('both tasks are settled', () => leftIn(spool).length === 0, 60_000)
      assert.equal(daemon.journal().filter(each => each === n).length, 1)
      assert.equal((await deadOf(spool)).size, n === 'ok' ? 0 : 1)
    })
})
