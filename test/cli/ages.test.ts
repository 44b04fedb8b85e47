import assert from 'node:assert/strict'
import { symlinkSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { inspectFile } from '#src/engines/spool/admin/task-view.js'
import { readLocks } from '#src/system/files/lock-table.js'
import { inProcess } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, packet } from '../helpers/files.js'
import { listed, stateOf } from '../helpers/spools.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const HOUR_MS = 3_600_000
const startMs = Date.now()
/** An hour ago: the arrival that the names of the tasks say. Their files are made now. */
const arrivedMs = startMs - HOUR_MS
const named = (key: string) =>
  `uwsgi_spoolfile_on_${key}_1_1_1_${Math.floor(arrivedMs / 1000)}_${(arrivedMs % 1000) * 1000}`
const ARRIVED = new Date(arrivedMs).toISOString()

/** Returns the age of a task in the table, such as `61 m`. */
async function ageIn(spool: string, name: string): Promise<string | undefined> {
  const { stdout } = await inProcess(['ls', spool])
  const line = stdout.split('\n').find(each => each.includes(name))
  return /^\S+ +(?:\d+ +)?(?:now|-?\d+ [smhd])? +(\d+ [smhd]) +\d/.exec(line ?? '')?.[1]
}

describe('the age of a task', () => {
  const spool = spoolDirectory()
  before(() => {
    for (const key of ['due', 'held', 'touched', 'kicked', 'mode']) drop(spool, named(key), packet({ key }))
    drop(spool, named('waiting'), packet({ key: 'waiting' }), Math.floor(startMs / 1000) + 86_400)
  })

  it('is what the name of the task says, in the table, in JSON and in spoold show', async () => {
    assert.equal((await listed(spool)).get(named('due'))?.arrived, ARRIVED)
    assert.match((await ageIn(spool, named('due'))) ?? '', /^6\d m$/)
    const path = join(spool, named('due'))
    assert.equal(JSON.parse((await inProcess(['show', '--json', path])).stdout).arrived, ARRIVED)
    assert.ok((await inProcess(['show', path])).stdout.includes(`, arrived ${ARRIVED}, `))
  })

  for (const [what, change] of [
    ['held', () => inProcess(['hold', join(spool, named('held'))])],
    ['kicked', () => inProcess(['kick', join(spool, named('kicked'))])],
    ['touched', async () => utimesSync(join(spool, named('touched')), new Date(), new Date())],
    ['waiting', async () => {}],
  ] as const)
    it(`does not change if the task is ${what}`, async () => {
      await change()
      assert.equal((await listed(spool)).get(named(what))?.arrived, ARRIVED)
      assert.match((await ageIn(spool, named(what))) ?? '', /^6\d m$/) // on a loaded machine this file takes a minute
    })

  it('is what --older-than and --newer-than compare, in every state', async () => {
    assert.equal((await listed(spool, '--older-than', '59m')).size, 6)
    assert.equal((await listed(spool, '--newer-than', '59m')).size, 0)
  })

  it('counts from the arrival of the task, not from the start of its run, while the task runs', async () => {
    const running = spoolDirectory()
    const daemon = await startDaemon({
      spool: running,
      handler: `export default async (env, task) => {
        await new Promise(resolve => process.once('SIGUSR2', resolve))
        return task.SPOOL_OK
      }`,
    })
    drop(running, named('runs'))
    await until('the task runs', async () => (await stateOf(running, named('runs'))) === 'running')
    assert.equal((await listed(running, '--older-than', '59m')).get(named('runs'))?.arrived, ARRIVED)
    for (const pid of daemon.workers()) process.kill(pid, 'SIGUSR2')
  })

  it('comes from the times of the file when the file cannot be read, and its size is still reported', () => {
    const other = spoolDirectory()
    symlinkSync('target', join(other, 'link'))
    const { state, bytes, sinceMs } = inspectFile(join(other, 'link'), readLocks(), Date.now())
    assert.deepEqual([state, bytes], ['unreadable', 'target'.length])
    assert.ok(sinceMs !== undefined && Math.abs(sinceMs - Date.now()) < 60_000)
  })

  it('is the age of the file when its name says no time, or one in the future', async () => {
    const other = spoolDirectory()
    const seconds = Math.floor(arrivedMs / 1000)
    const later = `uwsgi_spoolfile_on_h_1_1_1_${seconds + 864_000}_5`
    for (const name of ['free', later, 'uwsgi_spoolfile_on_short_1_2']) drop(other, name, packet({}), seconds)
    const rows = await listed(other, '--older-than', '59m')
    assert.equal(rows.size, 3)
    for (const { arrived } of rows.values()) assert.equal(arrived, new Date(seconds * 1000).toISOString())
  })
})
