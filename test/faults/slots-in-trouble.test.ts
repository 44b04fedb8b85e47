import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { foundAndRepaired, fsck, LONG_AGO } from '../helpers/fsck.js'
import { skipUnless } from '../helpers/requires.js'
import { smallDisk } from '../helpers/small-disk.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** A task of which one runs at a time; it journals if another one runs in a process that lives. */
const FEW = (spool: string) => `
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Tasks } from 'spoold'
export const tasks = new Tasks({ maxRetries: 1, retryDelay: 0 })
const holder = ${JSON.stringify(join(dirname(spool), 'holder'))}
const EXITING = 4 // of the flags of a process: it has no more locks, though it may still be listed
const flagsOf = pid => Number(readFileSync('/proc/' + pid + '/stat', 'utf8').split(') ')[1].split(' ')[6])
const isAlive = pid => { try { return (flagsOf(pid) & EXITING) === 0 } catch { return false } }
tasks.task('few', { maxConcurrency: 1 }, async (n, what) => {
  if (existsSync(holder) && isAlive(Number(readFileSync(holder)))) JOURNAL('beside ' + n)
  writeFileSync(holder, String(process.pid))
  JOURNAL('begin ' + n)
  if (what === 'endless') for (;;);
  if (what === 'go') while (!existsSync(new URL('go', import.meta.url))) await new Promise(resolve => setTimeout(resolve, 5))
  rmSync(holder)
  JOURNAL('end ' + n)
})
tasks.task('free', () => JOURNAL('free'))`

const few = (spool: string, n: number, ...more: string[]) =>
  drop(spool, undefined, packet({ task: 'few', args: JSON.stringify([n, ...more]) }))

const slotsOf = (spool: string) =>
  join(spool, '.spoold/slots', createHash('sha1').update('few').digest('hex'))

describe('slots', () => {
  it('are free again when a deadline killed the process that had one, and only the guilty task counts kills', async () => {
    const spool = spoolDirectory()
    for (const n of [0, 1, 2]) few(spool, n, ...(n === 0 ? ['endless'] : []))
    const ini = { 'spooler-processes': 3, 'spooler-harakiri': 3 }
    const daemon = await startDaemon({ spool, handler: FEW(spool), ini })
    await until('all tasks have ended', () => leftIn(spool).length === 0)
    const journal = daemon.journal()
    assert.deepEqual(
      journal.filter(line => line.startsWith('beside')),
      [],
    )
    assert.equal(
      journal.filter(line => line === 'begin 0').length,
      2,
      'the task ran once, and once again as its retry',
    )
    assert.deepEqual(journal.filter(line => line.startsWith('end')).sort(), ['end 1', 'end 2'])
    const dead = leftIn(join(spool, '.spoold/dead')).filter(name => name.endsWith('.json'))
    assert.equal(dead.length, 1)
  })

  it('that cannot be made on a full disk make tasks wait unmarked, with one line in the log, while others run', {
    skip: skipUnless('root', 'mount'),
  }, async () => {
    const disk = smallDisk('size=4m,nr_inodes=200')
    const spool = join(disk, 'spool')
    mkdirSync(spool)
    drop(spool, undefined, packet({ task: 'free', args: '[]' }))
    const daemon = await startDaemon({ spool, handler: FEW(spool), ini: { 'spooler-processes': 2 } })
    await until('the first task has run', () => daemon.journal().length === 1) // the journal is there now
    const stops = [0, 1, 2].map(n => join(disk, `held${n}`))
    for (const stop of stops) writeFileSync(stop, '')
    let fillers = 0
    try {
      for (;;) writeFileSync(join(disk, `filler${fillers++}`), '')
    } catch {}
    for (const [n, stop] of stops.entries()) {
      rmSync(stop) // leaves an inode for this task, and none for its slot
      if (n < 2) few(spool, n)
      else drop(spool, undefined, packet({ task: 'free', args: '[]' }))
    }
    await daemon.waitFor(/waits: a slot of few cannot be taken: .*ENOSPC/)
    await until('the second free task has run', () => daemon.journal().length === 2)
    assert.equal(daemon.output.split('cannot be taken').length, 2)
    for (const name of leftIn(spool)) assert.equal(readFileSync(join(spool, name))[3], 0, 'it is marked')
    for (let i = 0; i < fillers; i++) rmSync(join(disk, `filler${i}`), { force: true })
    await until('all tasks have run', () => leftIn(spool).length === 0)
    // Each task was tried again by itself, so either may come first; never both at once.
    const after = daemon.journal().slice(2)
    const runs = [after.slice(0, 2), after.slice(2)].sort()
    assert.deepEqual(runs, [
      ['begin 0', 'end 0'],
      ['begin 1', 'end 1'],
    ])
  })

  it('are left alone by fsck while they are in use, and fsck takes none', async () => {
    const spool = spoolDirectory()
    const [one, two] = [await startDaemonOn(spool), await startDaemonOn(spool)]
    few(spool, 0, 'go')
    await until('the task runs', () => one.journal().length === 1)
    for (let n = 1; n < 4; n++) few(spool, n)
    const findings = async () => (await fsck(spool)).findings.filter(({ kind }) => kind !== 'in-use')
    assert.deepEqual(await findings(), [])
    assert.ok(existsSync(join(slotsOf(spool), '0')))
    writeFileSync(join(one.directory, 'go'), '')
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assert.deepEqual(
      two.journal().filter(line => line.startsWith('beside')),
      [],
    )
    assert.deepEqual(await findings(), [])
  })

  it('of dead processes under leases, and a link in place of their directory, are found and repaired by fsck', async () => {
    const spool = spoolDirectory()
    const slots = slotsOf(spool)
    mkdirSync(join(spool, '.spoold'), { mode: 0o700 })
    mkdirSync(slots, { recursive: true })
    for (const number of [0, 1]) mkdirSync(join(slots, `${number}.lock`))
    utimesSync(join(slots, '0.lock'), LONG_AGO, LONG_AGO)
    const path = join('.spoold/slots', slots.slice(-40), '0.lock')
    await foundAndRepaired(spool, [`lease-stale ${path}`])
    assert.deepEqual([existsSync(join(slots, '0.lock')), existsSync(join(slots, '1.lock'))], [false, true])

    rmSync(join(spool, '.spoold/slots'), { recursive: true })
    const outside = join(dirname(spool), 'outside')
    mkdirSync(join(outside, slots.slice(-40), '0.lock'), { recursive: true })
    utimesSync(join(outside, slots.slice(-40), '0.lock'), LONG_AGO, LONG_AGO)
    symlinkSync(outside, join(spool, '.spoold/slots'))
    await foundAndRepaired(spool, ['state-directory .spoold/slots'])
    assert.ok(existsSync(join(outside, slots.slice(-40), '0.lock')), 'nothing outside is touched')
    few(spool, 0)
    await startDaemonOn(spool)
    await until('the task has run', () => leftIn(spool).length === 0)
  })
})

function startDaemonOn(spool: string) {
  return startDaemon({ spool, handler: FEW(spool), ini: { 'spooler-processes': 2 } })
}
