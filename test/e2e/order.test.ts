import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { type DaemonSetup, startDaemon } from '../helpers/daemon.js'
import { drop, packet } from '../helpers/files.js'
import { listed } from '../helpers/spools.js'
import { spoolDirectory } from '../helpers/workspace.js'

const YESTERDAY = Math.floor(Date.now() / 1000) - 86_400

/** Returns names of tasks that arrived yesterday, 1 µs apart or more, from processes whose numbers tell nothing. */
function arrivals(count: number, priority = ''): string[] {
  return Array.from({ length: count }, (_, i) => {
    const pid = 1 + ((i * 7919) % 9973)
    return `${priority}uwsgi_spoolfile_on_host${pid % 3}_${pid}_1_${(i * 104_729) % 999_983}_${YESTERDAY + Math.floor(i / 7)}_${i % 7}`
  })
}

/** Drops a task for each name, in an order that looks like chance. */
function dropShuffled(spool: string, names: readonly string[]): void {
  for (const i of names.keys()) {
    const name = names[(i * 37) % names.length] ?? ''
    drop(spool, name, packet({ name }))
  }
}

const JOURNAL_NAME = 'export default (env, task) => { JOURNAL(env.name); return task.SPOOL_OK }'

async function drained(setup: Omit<DaemonSetup, 'handler' | 'isUnready'>): Promise<string[]> {
  const daemon = await startDaemon({
    ...setup,
    args: ['--drain', ...(setup.args ?? [])],
    handler: JOURNAL_NAME,
    isUnready: true,
  })
  assert.equal(await daemon.code(), 0)
  return daemon.journal()
}

const lsNames = async (spool: string, ...flags: string[]) => [...(await listed(spool, ...flags)).keys()]

describe('the order of running', { concurrency: 3 }, () => {
  it('is the order of arrival, whichever process made the names, and ls shows it', async () => {
    const spool = spoolDirectory()
    const names = arrivals(2000)
    dropShuffled(spool, names)
    assert.deepEqual(await lsNames(spool), names)
    assert.deepEqual(await drained({ spool }), names)
  })

  it('puts a task that is to run again behind tasks that were due before its next run', async () => {
    const spool = spoolDirectory()
    const [failing = '', ...others] = arrivals(6)
    dropShuffled(spool, [failing, ...others])
    const daemon = await startDaemon({
      spool,
      args: ['--drain'],
      handler: `
        export default (env, task) => {
          JOURNAL(task.name)
          return task.attempt === 1 && task.name === ${JSON.stringify(failing)} ? { retry: 0 } : task.SPOOL_OK
        }`,
      isUnready: true,
    })
    await daemon.code()
    assert.deepEqual(daemon.journal(), [failing, ...others, failing])
  })

  it('is by priority and then by arrival with spooler-ordered = age', async () => {
    const spool = spoolDirectory()
    const names = ['2/', '10/', ''].flatMap(priority => {
      if (priority !== '') mkdirSync(join(spool, priority))
      return arrivals(300, priority)
    })
    dropShuffled(spool, names)
    assert.deepEqual(await lsNames(spool), names)
    assert.deepEqual(await drained({ spool, ini: { 'spooler-ordered': 'age' } }), names)
  })

  it("is uWSGI's with spooler-ordered, and ls --by-name shows it", async () => {
    const spool = spoolDirectory()
    for (const name of ['task10', 'task9', 'task1']) drop(spool, name, packet({ name }))
    const names = ['task1', 'task9', 'task10']
    assert.deepEqual(await lsNames(spool, '--by-name'), names)
    assert.deepEqual(await drained({ spool, args: ['--spooler-ordered'] }), names)
  })

  it('puts waiting tasks behind due ones in ls, by their time', async () => {
    const spool = spoolDirectory()
    const [a = '', b = '', c = ''] = arrivals(3)
    const nowSeconds = Math.floor(Date.now() / 1000)
    drop(spool, a, packet({ at: String(nowSeconds + 9000) }))
    drop(spool, b, packet({ at: String(nowSeconds + 5000) }))
    drop(spool, c, packet({ n: '1' }))
    assert.deepEqual(await lsNames(spool), [c, b, a])
    assert.deepEqual(await lsNames(spool, '--state', 'waiting'), [b, a])
  })
})
