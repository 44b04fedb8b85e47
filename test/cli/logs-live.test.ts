import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { basename } from 'node:path'
import { describe, it } from 'node:test'
import { formatRequest, parseReply } from '#src/formats/control/protocol.js'
import { controlOf, spoolSnapshotOf } from '../helpers/control.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

const follow = (...args: string[]) => new TestProcess(process.execPath, [BIN, 'logs', '-f', ...args])
const RUNS = /is running \(pid: \d+\)/

describe('spoold logs -f', { concurrency: 2 }, () => {
  it('goes on through a reload, and ends with the daemon, for 20 followers at once', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool })
    const followers = Array.from({ length: 20 }, () => follow(spool))
    for (const each of followers) await each.waitFor(RUNS)
    daemon.child.kill('SIGHUP')
    for (const each of followers) await each.waitFor('the spoolers are reloaded')
    const path = drop(spool)
    for (const each of followers) await each.waitFor(`done with task ${path.split('/').at(-1)}`)
    daemon.child.kill('SIGTERM')
    for (const each of followers) {
      assert.equal(await each.code(), 0, each.output)
      assert.match(each.output, /goodbye to uWSGI\.\n$/)
    }
  })

  it('exits with 1, and says so, when the daemon is killed', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool })
    const follower = follow(spool)
    await follower.waitFor(RUNS)
    daemon.child.kill('SIGKILL')
    assert.equal(await follower.code(), 1)
    assert.match(follower.output, /process \d+: the connection was closed without an answer\n$/)
  })

  it('never keeps the daemon waiting, and counts what a slow reader missed', async () => {
    const spool = spoolDirectory()
    const [count, lines] = [200, 200]
    const daemon = await startDaemon({
      spool,
      handler: `export default (env, task) => {
        for (let i = 0; i < ${lines}; i++) console.log('printed ' + 'x'.repeat(100))
        return task.SPOOL_OK
      }`,
    })
    const slow = connect(controlOf(spool))
    slow.pause()
    slow.write(formatRequest({ id: 1, verb: 'events', args: { follow: true } }))
    for (let i = 0; i < count; i++) drop(spool)
    await until('all tasks are done', async () => (await spoolSnapshotOf(spool)).totals.done === count)
    await until('all lines are logged', () => daemon.output.match(/^printed /gm)?.length === count * lines)
    let text = ''
    slow.on('data', chunk => (text += chunk))
    slow.resume()
    await until('the slow reader is told what it missed', () => /"missed":[1-9]/.test(text))
    const last = drop(spool)
    await until('the slow reader reads on', () => text.includes(`done with task ${basename(last)}`))
    daemon.child.kill('SIGTERM')
    await until('the connection has ended', () => slow.closed)
    assert.equal(await daemon.code(), 0) // then its output is complete
    const replies = text.split('\n').filter(Boolean).map(parseReply)
    const batches = replies.flatMap(reply =>
      reply !== undefined && 'event' in reply ? [reply.event as { lines: unknown[]; missed: number }] : [],
    )
    const got = batches.reduce((sum, batch) => sum + batch.lines.length, 0)
    const missed = batches.reduce((sum, batch) => sum + batch.missed, 0)
    assert.ok(missed > 10_000, `${missed} missed, ${got} got`)
    // one event per line of the log, apart from those of several lines
    assert.equal(
      got + missed,
      daemon.output.split('\n').filter(line => line !== '' && !line.startsWith('  ')).length,
    )
    assert.deepEqual(replies.at(-1), { error: { code: 'stopped', message: 'the daemon stops' } })
  })
})
