import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { inProcess, spoold } from '../helpers/cli.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, packet } from '../helpers/files.js'
import { socketsOf } from '../helpers/proc.js'
import { TestProcess } from '../helpers/process.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

const HANDLER = `import { existsSync } from 'node:fs'
  import { setTimeout } from 'node:timers/promises'
  export default async (env, task) => {
    while (!existsSync(env.go)) await setTimeout(5)
    if (env.say === 'bury') return { bury: 'asked for' }
    if (env.say === 'again' && task.attempt < 2) return { retry: 0 }
    return task.SPOOL_OK
  }`

describe('spoold wait', () => {
  it('learns from the daemon how tasks end, and says which have not ended', async () => {
    const spool = spoolDirectory()
    const go = join(dirname(spool), 'go')
    const daemon = await startDaemon({ spool, handler: HANDLER, ini: { 'spooler-concurrency': 9 } })
    const idle = socketsOf(daemon.pid)
    const [good = '', bad = '', again = ''] = ['good', 'bury', 'again'].map(say =>
      drop(spool, undefined, packet({ say, go })),
    )
    const later = drop(spool, undefined, packet({ at: '9999999999' }))
    const waits = inProcess(['wait', good, again])
    const all = inProcess(['wait', '--timeout', '1500ms', good, bad, again, later])
    await until('both waits are connected', () => socketsOf(daemon.pid) >= idle + 2)
    await spoolSnapshotOf(spool)
    writeFileSync(go, '')
    const { code, stdout } = await waits
    assert.deepEqual(
      [stdout.split('\n').sort().slice(1), code],
      [[`done ${good}`, `done ${again}`].sort(), 0],
    )
    const failed = await all
    assert.equal(failed.code, 124)
    assert.ok(failed.stderr.includes(`dead ${bad}: asked: asked for (attempts: 1)`), failed.stderr)
    assert.ok(failed.stderr.includes(`${later} has not ended within 1.5 s: it is waiting`), failed.stderr)
    const dead = await inProcess(['wait', '--json', good, bad])
    const rows = dead.stdout.trim().split('\n')
    assert.deepEqual(
      rows.map(row => JSON.parse(row)).map(({ name, result, reason }) => [basename(name), result, reason]),
      [
        [basename(good), 'done', undefined],
        [basename(bad), 'dead', 'asked'],
      ],
    )
    assert.equal(dead.code, 1)
  })

  it('looks at the directory when there is no daemon', async () => {
    const spool = spoolDirectory()
    const [one, two] = [drop(spool), drop(spool)]
    rmSync(one)
    const wait = new TestProcess(process.execPath, [BIN, 'wait', one, two])
    await wait.waitFor(new RegExp(`^spoold: done or unknown ${one}: `, 'm'))
    rmSync(two)
    await wait.waitFor(new RegExp(`^gone ${two}: it is done, or was removed`, 'm'))
    assert.equal(await wait.code(), 0)
  })

  it('refuses what is no task of a spool', async () => {
    const spool = spoolDirectory()
    assert.equal((await inProcess(['wait', spool])).code, 64)
    assert.equal((await inProcess(['wait', '--timeout', 'soon', drop(spool)])).code, 64)
    for (const word of [`${spool}/a`, `${spool}/a/b`, '/nowhere/a']) {
      const { code, stderr } = await spoold(['wait', word])
      assert.deepEqual(
        [code, /^spoold: unknown .*: (?:it leads to no spool|no task)/.test(stderr)],
        [4, true],
        stderr,
      )
    }
    const file = join(dirname(spool), 'letter')
    writeFileSync(file, '')
    const other = await inProcess(['wait', '--timeout', '20s', file])
    assert.deepEqual([other.code, other.stderr.includes('is no spool')], [4, true], other.stderr)
  })
})
