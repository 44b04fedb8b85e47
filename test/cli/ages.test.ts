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
/** It came an hour ago, says its name; its file was made now. */
const arrivedMs = startMs - HOUR_MS
const named = (key: string) =>
  `uwsgi_spoolfile_on_${key}_1_1_1_${Math.floor(arrivedMs / 1000)}_${(arrivedMs % 1000) * 1000}`
const ARRIVED = new Date(arrivedMs).toISOString()

/** The age that the table has, without its unit's name. */
async function ageIn(spool: string, name: string): Promise<string | undefined> {
  const { stdout } = await inProcess(['ls', spool])
  const line = stdout.split('\n').find(each => each.includes(name))
  return /^\S+ +(?:\d+ +)?(?:now|-?\d+ [smhd])? +(\d+ [smhd]) +\d/.exec(line ?? '')?.[1]
}

describe('the age of a task', () => {
  const spool = spoolDirectory()
  before(() => {
    for (const key of ['due', 'held', 'touched', 'kicked', 'mode']) drop(spool, named(key), packet({ key }))
    drop(spool, named('waits'), packet({ key: 'waits' }), Math.floor(startMs / 1000) + 86_400)
  })

  it('is what its name says, in table and JSON', async () => {
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
    ['waits', async () => {}],
  ] as const)
    it(`does not change when it is ${what}`, async () => {
      await change()
      assert.equal((await listed(spool)).get(named(what))?.arrived, ARRIVED)
      assert.match((await ageIn(spool, named(what))) ?? '', /^6\d m$/) // on a loaded machine this file takes a minute
    })

  it('counts in filters, in every state', async () => {
    assert.equal((await listed(spool, '--older-than', '59m')).size, 6)
    assert.equal((await listed(spool, '--newer-than', '59m')).size, 0)
  })

  it('is that of the whole task while it runs, not of the run', async () => {
    const running = spoolDirectory()
    const daemon = await startDaemon({
      spool: running,
      handler: `export default async (env, task) => {
        await new Promise(resolve => process.once('SIGUSR2', resolve))
        return task.SPOOL_OK
      }`,
    })
    drop(running, named('runs'))
    await until('it runs', async () => (await stateOf(running, named('runs'))) === 'running')
    assert.equal((await listed(running, '--older-than', '59m')).get(named('runs'))?.arrived, ARRIVED)
    for (const pid of daemon.workers()) process.kill(pid, 'SIGUSR2')
  })

  it('is shown by the times of a file that cannot be read, and so is its size', () => {
    const other = spoolDirectory()
    symlinkSync('target', join(other, 'link'))
    const { state, bytes, sinceMs } = inspectFile(join(other, 'link'), readLocks(), Date.now())
    assert.deepEqual([state, bytes], ['unreadable', 'target'.length])
    assert.ok(sinceMs !== undefined && Math.abs(sinceMs - Date.now()) < 60_000)
  })

  it('is by the file where the name says nothing, or says a time to come', async () => {
    const other = spoolDirectory()
    const seconds = Math.floor(arrivedMs / 1000)
    const later = `uwsgi_spoolfile_on_h_1_1_1_${seconds + 864_000}_5`
    for (const name of ['free', later, 'uwsgi_spoolfile_on_short_1_2']) drop(other, name, packet({}), seconds)
    const rows = await listed(other, '--older-than', '59m')
    assert.equal(rows.size, 3)
    for (const { arrived } of rows.values()) assert.equal(arrived, new Date(seconds * 1000).toISOString())
  })
})
