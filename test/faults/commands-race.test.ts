import assert from 'node:assert/strict'
import { unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { openSpool } from '#src/engines/spool/admin/change.js'
import { receive } from '#src/engines/spool/admin/move.js'
import { findId } from '#src/engines/spool/store/draft.js'
import { inProcess } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { isLong } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const TASKS = isLong ? 5000 : 500
const HANDLER = `export default async (env, task) => {
  JOURNAL(env.n)
  if (env.n % 3 === 0 && task.attempt === 1) return { retry: '1h' }
  await new Promise(resolve => setTimeout(resolve, 1))
  return task.SPOOL_OK
}`
const INI = { 'spooler-processes': 2, 'spooler-quiet': true, 'spooler-frequency': 1 }

const numbers = (lines: readonly string[]) => lines.map(Number).sort((a, b) => a - b)
/** Every third task runs twice, because it asked for a retry. */
const EXPECTED = Array.from({ length: TASKS }, (_, i) => (i % 3 === 0 ? [i, i] : [i])).flat()

function fill(spool: string): void {
  for (let i = 0; i < TASKS; i++) drop(spool, `uwsgi_spoolfile_on_${i}`, packet({ n: String(i) }))
}

/** Runs a command, which may only report tasks that it left alone because they ran. */
async function changing(...args: readonly string[]): Promise<void> {
  const { stderr } = await inProcess([...args, '--all', '--quiet'])
  assert.deepEqual(
    stderr.split('\n').filter(line => line !== '' && !/ is running; it was left alone$/.test(line)),
    [],
  )
}

describe('commands beside a daemon at work', () => {
  it(`hold, release and kick ${TASKS} tasks all the while, which run as often as they ask`, async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, handler: HANDLER, ini: INI })
    fill(spool)
    await until(
      'all tasks have run',
      async () => {
        await changing('hold', spool)
        await changing('release', spool)
        await changing('kick', spool)
        return leftIn(spool).length === 0
      },
      120_000,
    )
    assert.deepEqual(numbers(daemon.journal()), EXPECTED)
    await until('no record is left', () => leftIn(join(spool, '.spoold/records')).length === 0)
  })

  it(`move ${TASKS} tasks to and fro, which run as often as they ask`, async () => {
    const [one, two] = [spoolDirectory(), spoolDirectory()]
    const daemons = [
      await startDaemon({ spool: one, handler: HANDLER, ini: INI }),
      await startDaemon({ spool: two, handler: HANDLER, ini: INI }),
    ]
    fill(one)
    await until(
      'all tasks have run',
      async () => {
        await changing('move', one, '--to', two)
        await changing('move', two, '--to', one)
        await changing('kick', one, two)
        return leftIn(one).length + leftIn(two).length === 0
      },
      120_000,
    )
    assert.deepEqual(numbers(daemons.flatMap(daemon => daemon.journal())), EXPECTED)
  })

  it('store and promise nothing if a sweep removed the unfinished file of a move that took too long', async () => {
    const spool = spoolDirectory()
    const moving = receive(
      await openSpool(spool),
      {
        packet: packet({ n: '1' }),
        bodyBytes: 0,
        body: () => [],
        priority: undefined,
        dueAtMs: 1000,
        arrivedAtMs: undefined,
        isHeld: false,
        past: 'none',
        record: undefined,
      },
      'key',
    )
    const [unfinished = ''] = leftIn(spool)
    unlinkSync(join(spool, unfinished))
    assert.equal((await moving).kind, 'refused')
    assert.deepEqual([findId(spool, 'key'), leftIn(spool)], [undefined, []])
  })
})
