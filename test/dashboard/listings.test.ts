import assert from 'node:assert/strict'
import { mkdirSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { deadNames, PAGE_SIZE, pageOf, recordedNames } from '#src/doors/dashboard/models/listings.js'
import { taskDetail } from '#src/doors/dashboard/models/task-detail.js'
import type { TaskView } from '#src/engines/spool/admin/task-view.js'
import { SpoolView } from '#src/engines/spool/admin/task-view.js'
import { withFailure } from '#src/engines/spool/records.js'
import { spoold } from '../helpers/cli.js'
import { drop, packet, taskName } from '../helpers/files.js'
import { spoolDirectory } from '../helpers/workspace.js'

const lookIn = (spool: string) => {
  const view = new SpoolView(spool)
  return (ref: string) => view.view(ref)
}

async function changed(command: string, spool: string, ...names: string[]): Promise<void> {
  const { code, stderr } = await spoold([command, ...names.map(name => `${spool}/${name}`)])
  assert.equal(code, 0, stderr)
}

function filled(count: number): { spool: string; names: string[] } {
  const spool = spoolDirectory()
  const names = Array.from({ length: count }, () => taskName())
  for (const name of names) drop(spool, name, packet({ to: 'joe', password: 'zq-31' }, 'a body'))
  return { spool, names }
}

describe('the listings of a dashboard', () => {
  it('have the dead letters, the latest first', async () => {
    const { spool, names } = filled(3)
    for (const name of names.toReversed()) await changed('cancel', spool, name)
    const { refs, isCut } = await deadNames(spool)
    assert.deepEqual(
      refs,
      names.map(name => `.spoold/dead/${name}`),
    )
    assert.equal(isCut, false)
    const { tasks } = await pageOf(lookIn(spool), refs, 0)
    assert.deepEqual(
      tasks.map(({ letter }) => letter?.reason),
      ['cancelled', 'cancelled', 'cancelled'],
    )
  })

  it('have all tasks with a record; a page opens those it shows, and passes over those that are gone', async () => {
    const { spool, names } = filled(PAGE_SIZE + 10)
    await changed('hold', spool, ...names)
    const { refs } = await recordedNames(spool)
    assert.deepEqual(new Set(refs), new Set(names))
    const first = await pageOf(lookIn(spool), refs, 0)
    assert.deepEqual([first.tasks.length, first.next, first.opened], [PAGE_SIZE, PAGE_SIZE, PAGE_SIZE])
    unlinkSync(`${spool}/${refs[PAGE_SIZE]}`)
    const second = await pageOf(lookIn(spool), refs, first.next ?? 0, ({ state }) => state === 'held')
    assert.deepEqual([second.tasks.length, second.next], [9, null])
    const none = await pageOf(lookIn(spool), refs, 0, ({ state }) => state === 'retrying')
    assert.deepEqual([none.tasks.length, none.next, none.opened], [0, null, PAGE_SIZE + 10])
  })

  it('have the first 10,000 records where there are more, and all of exactly 10,000, with directories among them', async () => {
    const spool = spoolDirectory()
    const records = join(spool, '.spoold/records')
    mkdirSync(join(records, '5'), { recursive: true, mode: 0o700 })
    for (let i = 1; i < 10_000; i++) writeFileSync(join(records, `r-${i}.json`), '')
    const found = async () => {
      const { refs, isCut } = await recordedNames(spool)
      return [refs.length, isCut]
    }
    writeFileSync(join(records, '5/r.json'), '')
    assert.deepEqual(await found(), [10_000, false])
    writeFileSync(join(records, 'r-10000.json'), '')
    assert.deepEqual(await found(), [10_000, true])
  })
})

describe('a task on a dashboard', () => {
  const detailOf = (spool: string, ref: string, mayReadPayload: boolean, more: Partial<TaskView> = {}) => {
    const found = lookIn(spool)(ref)
    assert.ok(found !== undefined)
    const task = { ...found, ...more }
    const readBody = async (most: number) => Buffer.from('a body').subarray(0, most)
    return taskDetail(task, { mayReadPayload, nowMs: Date.now(), readBody })
  }

  it('shows its keys and its body', async () => {
    const { spool, names } = filled(1)
    const { payload, row } = await detailOf(spool, names[0] ?? '', true)
    assert.deepEqual(
      payload?.pairs.map(({ key, value }) => [key, value.text]),
      [
        ['to', 'joe'],
        ['password', 'zq-31'],
      ],
    )
    assert.deepEqual([payload?.body?.text, payload?.bodyBytes, row.state], ['a body', 6, 'due'])
  })

  it('says why its body cannot be read', async () => {
    const { spool, names } = filled(1)
    const found = lookIn(spool)(names[0] ?? '') ?? assert.fail()
    const faultOf = async (error: Error) => {
      const readBody = () => Promise.reject(error)
      const { payload } = await taskDetail(found, { mayReadPayload: true, nowMs: Date.now(), readBody })
      return [payload?.body, payload?.bodyFault]
    }
    const failed = (code: string, text: string) =>
      Object.assign(new Error(`${code}: ${text}, read`), { code })
    assert.deepEqual(await faultOf(failed('EIO', 'i/o error')), [
      null,
      'It cannot be read: EIO: i/o error, read',
    ])
    assert.deepEqual(await faultOf(failed('ENOENT', 'no such file')), [null, 'The task has ended.'])
    assert.equal((await detailOf(spool, names[0] ?? '', true)).payload?.bodyFault, null)
  })

  it('shows its last error with all lines, and each error of its history in one line', async () => {
    const { spool, names } = filled(1)
    const said = 'Error: red\u001b[31m \u202eevil\r\n  at f\n[cause]: Error: deadlock'
    const record = withFailure(
      undefined,
      { attempts: 1, crashes: 0, policy: {} },
      { kind: 'error', error: said },
      Date.now(),
    )
    const detail = await detailOf(spool, names[0] ?? '', true, { record })
    assert.equal(detail.lastError, said)
    const failed = detail.moments.find(({ what }) => what === 'failed with an error')
    assert.equal(failed?.detail, 'Error: red\u001b[31m \u202eevil: deadlock')
    assert.equal(detail.row.error, 'Error: red\\x1b[31m \\u202eevil: deadlock')
  })

  it('shows nothing of its payload to those who may not read payloads', async () => {
    const { spool, names } = filled(1)
    await changed('cancel', spool, names[0] ?? '')
    const detail = await detailOf(spool, `.spoold/dead/${names[0]}`, false)
    assert.equal(detail.payload, null)
    assert.doesNotMatch(JSON.stringify(detail), /joe|zq-31|a body/)
    assert.deepEqual(
      detail.moments.map(({ what }) => what),
      ['arrived', 'buried (cancelled)'],
    )
  })
})
