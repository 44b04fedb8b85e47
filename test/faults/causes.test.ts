import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { STARTED } from '#src/engines/spool/state-byte.js'
import { MODIFIER2_OFFSET } from '#src/formats/protocol/header.js'
import { inProcess } from '../helpers/cli.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { deadOf } from '../helpers/witness.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** Those that block end when there is a gate. */
const HANDLER = `
  import { existsSync } from 'node:fs'
  const nap = new Int32Array(new SharedArrayBuffer(4))
  export default env => {
    JOURNAL(env.n)
    while (env.do === 'block' && !existsSync(env.gate)) Atomics.wait(nap, 0, 0, 10)
    while (env.do === 'abort' && env.gate2 !== undefined && !existsSync(env.gate2)) Atomics.wait(nap, 0, 0, 10)
    if (env.do === 'abort') process.abort()
    return -2
  }`

const LAST = 'uwsgi_spoolfile_on_h_1_149'

/** More than the one that has begun are given and not reported: 49 quick ones, of which nobody has heard yet, and the last. */
async function runBehindQuickOnes(spool: string, what: string, ini: object): Promise<Daemon> {
  const gate = join(dirname(spool), 'gate')
  for (let i = 0; i < 50; i++)
    drop(spool, `uwsgi_spoolfile_on_h_1_${100 + i}`, packet({ n: `n${i}`, do: i === 49 ? what : '', gate }))
  return await startDaemon({
    spool,
    handler: HANDLER,
    ini: { 'spooler-ordered': true, 'spooler-frequency': 1, 'spooler-max-crashes': 1, ...ini },
  })
}

/** Why each dead task is dead, last error included. */
async function reasonsIn(spool: string): Promise<string[]> {
  return [...(await deadOf(spool))].map(([n, { detail, lastError }]) => `${n}: ${lastError ?? detail}`)
}

describe('a process that ends while a task runs whose start was not told', () => {
  it('is blamed on that task if it overran spooler-harakiri, and on no other', async () => {
    const spool = spoolDirectory()
    const daemon = await runBehindQuickOnes(spool, 'block', { 'spooler-harakiri': 2 })
    await until('all are over', () => leftIn(spool).length === 0)
    assert.deepEqual(await reasonsIn(spool), ['n49: it overran spooler-harakiri (2 s)'])
    const named = daemon.output.match(/uwsgi_spoolfile_on_h_1_\d+(?=.* overran)/g)
    assert.deepEqual([...new Set(named)], [LAST])
  })

  it('is blamed on that task if it crashed, and on no other', async () => {
    const spool = spoolDirectory()
    const daemon = await runBehindQuickOnes(spool, 'abort', {})
    await until('all are over', () => leftIn(spool).length === 0)
    assert.deepEqual(await reasonsIn(spool), ['n49: its process was killed by SIGABRT'])
    await daemon.waitFor(`the process was killed by SIGABRT; it had ${LAST}\n`)
  })

  it('is blamed on none if it was killed for a reload', async () => {
    const spool = spoolDirectory()
    const daemon = await runBehindQuickOnes(spool, 'block', { 'worker-reload-mercy': 1 })
    const begun = () => daemon.journal().filter(n => n === 'n49').length
    await until('it blocks', () => begun() === 1)
    daemon.child.kill('SIGHUP')
    await until('it runs again, or is buried', () => begun() === 2 || leftIn(spool).length === 0)
    writeFileSync(join(dirname(spool), 'gate'), '')
    await until('all are over', () => leftIn(spool).length === 0)
    assert.deepEqual(await reasonsIn(spool), [])
    assert.ok(
      !existsSync(join(spool, '.spoold/records')) || leftIn(join(spool, '.spoold/records')).length === 0,
    )
  })

  it('is blamed on none though the daemon ends before the task runs again', async () => {
    const spool = spoolDirectory()
    const daemon = await runBehindQuickOnes(spool, 'block', { 'worker-reload-mercy': 1 })
    await until('it blocks', () => daemon.journal().includes('n49'))
    const [file = ''] = leftIn(spool)
    const mark = () => readFileSync(join(spool, file))[MODIFIER2_OFFSET]
    await until('its run is marked', () => mark() === STARTED)
    await inProcess(['pause', spool])
    daemon.child.kill('SIGHUP')
    await until('its mark is taken off', () => mark() === 0)
    daemon.child.kill('SIGKILL')
    await daemon.code()
    assert.deepEqual([leftIn(spool), await reasonsIn(spool)], [[file], []])
  })

  it('is blamed on the task that crashed another process, although the one that had it before is killed at a stop', async () => {
    const spool = spoolDirectory()
    const [gate, gate2] = [join(dirname(spool), 'gate'), join(dirname(spool), 'gate2')]
    for (let i = 0; i < 200; i++) drop(spool, `uwsgi_spoolfile_on_h_0_${100 + i}`, packet({ n: 'quick' }))
    const daemon = await startDaemon({
      spool,
      handler: HANDLER,
      ini: {
        'spooler-ordered': true,
        'spooler-processes': 2,
        'spooler-max-crashes': 1,
        'worker-reload-mercy': 1,
      },
    })
    await until('many are given at a time', () => leftIn(spool).length === 0)
    await inProcess(['pause', spool])
    await daemon.waitFor(' paused: ')
    for (const [i, what] of ['block', 'abort', ...Array(48).fill('')].entries())
      drop(spool, `uwsgi_spoolfile_on_h_1_${100 + i}`, packet({ n: `n${i}`, do: what, gate, gate2 }))
    await inProcess(['resume', spool])
    await until('both are under way', () => ['n0', 'n1'].every(n => daemon.journal().includes(n)))
    await inProcess(['pause', spool])
    await until('nothing more begins', () => [...daemon.output.matchAll(/ paused: /g)].length === 2)
    writeFileSync(gate2, '')
    await daemon.waitFor('SIGABRT')
    daemon.child.kill('SIGTERM')
    await daemon.code()
    const markOf = (i: number) =>
      readFileSync(join(spool, `uwsgi_spoolfile_on_h_1_${100 + i}`))[MODIFIER2_OFFSET]
    assert.deepEqual([markOf(0), markOf(1)], [0, STARTED])
  })
})
