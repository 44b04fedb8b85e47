import assert from 'node:assert/strict'
import { mkdirSync, renameSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { actOnTask } from '#src/admin/operate/act.js'
import { ACTIONS } from '#src/admin/operate/actions.js'
import { textsOf } from '#src/doors/dashboard/filter.js'
import { ReadableSpools } from '#src/doors/dashboard/readable-spools.js'
import { Spools, urlTextOf } from '#src/doors/dashboard/spools.js'
import { openTaskStore } from '#src/engines/open-engine.js'
import { writeAudit } from '#src/engines/spool/admin/audit.js'
import { SpoolView, seenTask } from '#src/engines/spool/admin/task-view.js'
import { Records } from '#src/engines/spool/records.js'
import { Hide } from '#src/formats/protocol/hide.js'
import { toPairs } from '#src/formats/protocol/vars.js'
import { drop, packet } from '../helpers/files.js'
import { spoolDirectory } from '../helpers/workspace.js'

const SECRET = 'the-payload'

/** Returns a spool of a failed task, whose payload is in every place where it can be, and a dead one. */
async function spool(): Promise<string> {
  const path = spoolDirectory()
  const vars = { [SECRET]: SECRET, task: 'mail.send', args: `["${SECRET}"]` }
  for (const name of ['failed', 'dead']) drop(path, name, packet(vars, SECRET))
  for (const name of ['failed', 'dead']) {
    const task = new SpoolView(path).view(name) ?? assert.fail()
    await actOnTask(await openTaskStore(path), task, ACTIONS.hold)
    const record = new Records(path).read(name) ?? assert.fail()
    const history = [{ at: 1, kind: 'error' as const, error: SECRET }]
    const burial = { reason: 'attempts' as const, detail: SECRET }
    new Records(path).write(name, { ...record, attempts: 1, lastError: SECRET, history, burial })
  }
  const dead = new SpoolView(path).view('dead') ?? assert.fail()
  assert.equal((await actOnTask(await openTaskStore(path), dead, ACTIONS.bury)).kind, 'done')
  writeAudit(path, { at: 1, who: 'joe', role: 'admin', action: 'hold', filter: SECRET, result: SECRET })
  return path
}

const seenBy = (path: string, mayReadPayload: boolean, hide = new Hide([])) =>
  new ReadableSpools(new Spools([path]), { mayReadPayload, hide }).get('spool')

describe('the readable part of a spool', () => {
  it('is read fast: the secrets in values are collected only for a task with a record or reason to hide them in', () => {
    const [path, values] = [
      spoolDirectory(),
      JSON.stringify(Array.from({ length: 10_000 }, (_, i) => 10_000 + i)),
    ]
    for (let i = 0; i < 100; i++) drop(path, `task${i}`, packet({ password: values }))
    const since = performance.now()
    const hide = new Hide(['password'])
    for (let i = 0; i < 100; i++) {
      const task = new SpoolView(path).view(`task${i}`) ?? assert.fail()
      const { vars } = seenTask(task, { mayReadPayload: true, hide }).file
      assert.deepEqual(vars && toPairs(vars).map(String), ['password,[hidden]'])
    }
    const tookMs = performance.now() - since
    assert.ok(tookMs < 1000, `${tookMs} ms`)
  })

  it('has no payload but the names of functions, without the right to payloads', async () => {
    const path = await spool()
    const seen = seenBy(path, false)
    const views = [
      await seen.task(urlTextOf('failed')),
      await seen.task(urlTextOf('.spoold/dead/dead')),
      ...(await seen.find({}, 9)).tasks,
    ]
    assert.equal(views.length, 4)
    for (const task of views) {
      assert.ok(!JSON.stringify(task).includes(SECRET), JSON.stringify(task))
      const vars = task.file.vars ?? assert.fail()
      assert.deepEqual(toPairs(vars).map(String), ['task,mail.send'])
      await assert.rejects(() => seen.body(task), { status: 403 })
    }
    const [entry] = await seen.audit(9)
    assert.deepEqual(
      [entry?.filter, entry?.result],
      ['[hidden]', '[hidden]'],
      'the entry has a filter and a result',
    )
    for (const filter of [{ key: ['a=b'] }, { match: ['a=*'] }, { grep: ['x'] }]) {
      await assert.rejects(seen.find(filter, 9), { status: 403 })
      await assert.rejects(seen.meant(ACTIONS.hold, textsOf(filter)), { status: 403 })
    }
  })

  it('has everything but what is hidden, with the right to payloads', async () => {
    const path = await spool()
    const whole = seenBy(path, true)
    const task = await whole.task(urlTextOf('failed'))
    assert.equal((await whole.body(task)).toString(), SECRET)
    assert.match(JSON.stringify(task), /"lastError":"the-payload"/)
    assert.equal((await whole.audit(1))[0]?.filter, SECRET)
    const hidden = seenBy(path, true, new Hide([SECRET]))
    const pairs = toPairs((await hidden.task(urlTextOf('failed'))).file.vars ?? assert.fail()).map(String)
    assert.ok(pairs.includes(`${SECRET},[hidden]`))
    assert.equal((await hidden.body(task)).toString(), '[hidden]')
    const filter = { key: [`${SECRET}=${SECRET}`] }
    assert.equal((await hidden.find(filter, 9)).tasks.length, 0)
    assert.equal((await whole.find(filter, 9)).tasks.length, 2)
    const meant = await whole.meant(ACTIONS.release, textsOf(filter))
    assert.deepEqual([meant.refs.length, meant.isWhole], [1, true])
  })

  it('is listed no further than asked for', async () => {
    const path = spoolDirectory()
    for (let i = 0; i < 5; i++) drop(path)
    const { tasks, isWhole } = await seenBy(path, true).find({}, 3)
    assert.deepEqual([tasks.length, isWhole], [3, false])
    assert.equal((await seenBy(path, true).find({}, 5)).isWhole, true)
  })

  it('has nothing behind a symbolic link in place of a priority or a task', async () => {
    const path = spoolDirectory()
    const outside = join(dirname(path), 'outside')
    mkdirSync(outside)
    renameSync(drop(path, 'x', packet({ to: SECRET })), join(outside, 'x'))
    symlinkSync(outside, join(path, '7'))
    symlinkSync(join(outside, 'x'), join(path, 'y'))
    const seen = seenBy(path, true)
    await assert.rejects(() => seen.task(urlTextOf('7/x')), { status: 404 })
    assert.equal((await seen.task(urlTextOf('y'))).state, 'unreadable')
    assert.ok(!JSON.stringify(await seen.task(urlTextOf('y'))).includes(SECRET))
  })
})
