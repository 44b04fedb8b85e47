import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { actOnTask, actOnTasks, selectTasks } from '#src/admin/operate/act.js'
import { ACTIONS, type Action, findAction, type TaskAction } from '#src/admin/operate/actions.js'
import type { Args } from '#src/admin/operate/args.js'
import { selectionOf } from '#src/admin/operate/selection.js'
import { isAtLeast } from '#src/base/task/roles.js'
import { openTaskStore } from '#src/engines/open-engine.js'
import { SpoolView, type TaskState } from '#src/engines/spool/admin/task-view.js'
import { drop, leftIn, packet, taskName } from '../helpers/files.js'
import { spoolDirectory } from '../helpers/workspace.js'

const taskActions = Object.entries<Action>(ACTIONS).flatMap(([name, action]) =>
  action.on === 'task' ? [{ name, action }] : [],
)
const viewOf = (spool: string) => new SpoolView(spool)

async function act(spool: string, ref: string, action: TaskAction, args: Args = {}) {
  const task = viewOf(spool).view(ref) ?? assert.fail(`${ref} is gone`)
  return actOnTask(await openTaskStore(spool), task, action, args)
}

/** How a task gets into a state; those that no action leads out of have none of the others. */
const MAKERS: Readonly<Partial<Record<TaskState, (spool: string) => string | Promise<string>>>> = {
  due: spool => made(spool),
  waiting: spool => made(spool, Math.floor(Date.now() / 1000) + 3600),
  held: async spool => acted(spool, made(spool), ACTIONS.hold),
  dead: async spool => `.spoold/dead/${await acted(spool, made(spool), ACTIONS.bury)}`,
  malformed: spool => bare(spool, Buffer.from([1, 0, 0, 0])),
  incomplete: spool => bare(spool, packet({ a: 'b' }).subarray(0, 6)),
}

function made(spool: string, mtimeSeconds?: number): string {
  const name = taskName()
  drop(spool, name, packet({ to: 'joe' }, 'the body'), mtimeSeconds)
  return name
}

function bare(spool: string, bytes: Buffer): string {
  const name = taskName()
  writeFileSync(join(spool, name), bytes)
  return name
}

async function acted(spool: string, ref: string, action: TaskAction): Promise<string> {
  assert.deepEqual((await act(spool, ref, action)).kind, 'done')
  return ref
}

const stateOf = (spool: string, ref: string) => viewOf(spool).view(ref)?.state

describe('the table of actions', () => {
  for (const { name, action } of taskActions)
    for (const [state, make] of Object.entries(MAKERS))
      it(`${name}: a task that is ${state} ${action.states.includes(state as TaskState) ? 'has it' : 'is refused it, and stays'}`, async () => {
        const spool = spoolDirectory()
        const ref = await make(spool)
        assert.equal(stateOf(spool, ref), state)
        const bytes = readFileSync(join(spool, ref))
        const changed = await act(spool, ref, action, { vars: '{"to":"ann"}' })
        if (action.states.includes(state as TaskState)) {
          assert.equal(changed.kind, 'done', JSON.stringify(changed))
          const isThere = stateOf(spool, ref)
          assert.ok(isThere !== state || name === 'kick', `it is still ${isThere}`)
        } else {
          assert.equal(changed.kind, 'refused')
          assert.equal(stateOf(spool, ref), state)
          assert.deepEqual(readFileSync(join(spool, ref)), bytes)
        }
      })

  it('leaves what cannot be undone, and what brings new work, to admins', () => {
    for (const [name, action] of Object.entries<Action>(ACTIONS)) {
      const isGrave =
        action.isNewWork || (action.on === 'task' && action.isFinal) || name === 'remove-schedule'
      assert.equal(action.role, isGrave ? 'admin' : 'operator')
    }
    assert.ok(isAtLeast('admin', 'operator') && !isAtLeast('viewer', 'operator'))
  })

  it('has no action under a name that every object has', () => {
    assert.equal(findAction('hold'), ACTIONS.hold)
    for (const name of ['constructor', '__proto__', 'toString', '']) assert.equal(findAction(name), undefined)
  })
})

describe('edit', () => {
  it('keeps the priority, and the body unless another one is given; the task runs at once', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '7'))
    drop(spool, '7/first', packet({ to: 'joe', a: 'b' }, 'the body'))
    await acted(spool, '7/first', ACTIONS.bury)
    const changed = await act(spool, '.spoold/dead/7/first', ACTIONS.edit, {
      vars: '[["to","ann"],["to","eve"]]',
    })
    assert.equal(changed.kind, 'done')
    const [left = ''] = leftIn(spool)
    assert.match(left, /^7\//)
    assert.equal(changed.kind === 'done' && changed.to, left)
    const expected = Buffer.concat([
      packet({ to: 'ann' }).subarray(4),
      packet({ to: 'eve' }).subarray(4),
      packet({ priority: '7' }).subarray(4),
      Buffer.from('the body'),
    ])
    assert.deepEqual(readFileSync(join(spool, left)).subarray(4), expected)
    assert.equal(stateOf(spool, left), 'due')
    await acted(spool, left, ACTIONS.hold)
    await act(spool, left, ACTIONS.edit, { vars: '{}', body: 'another' })
    const rest = packet({ priority: '7' }, 'another').subarray(4)
    assert.deepEqual(readFileSync(join(spool, leftIn(spool)[0] ?? '')).subarray(4), rest)
  })

  for (const vars of ['', '[]x', '{"a":1}', '"a"', '[["a"]]', '{"spooler":"/tmp"}', 'null'])
    it(`changes nothing if vars is ${vars}`, async () => {
      const spool = spoolDirectory()
      await acted(spool, made(spool), ACTIONS.hold)
      const [name = ''] = leftIn(spool)
      const changed = await act(spool, name, ACTIONS.edit, { vars })
      assert.equal(changed.kind, 'refused')
      assert.match(changed.kind === 'refused' ? changed.detail : '', /^vars: expected/)
      assert.deepEqual([leftIn(spool), stateOf(spool, name)], [[name], 'held'])
    })
})

describe('actions on a spool', () => {
  it('pause and resume all tasks, or those with one pair', async () => {
    const spool = spoolDirectory()
    assert.match(await ACTIONS.pause.run(spool, { key: 'to=joe', until: '+1h' }), /tasks with to=joe, until /)
    assert.match(await ACTIONS.pause.run(spool, {}), /tasks with to=joe.*; all tasks/)
    assert.equal(
      await ACTIONS.resume.run(spool, { key: 'to=joe' }),
      'resumed: tasks with to=joe; still paused: all tasks',
    )
    assert.equal(await ACTIONS.resume.run(spool, { all: 'yes' }), 'resumed: all tasks')
    assert.equal(await ACTIONS.resume.run(spool, {}), 'nothing was paused')
    await assert.rejects(ACTIONS.pause.run(spool, { until: '2001-01-01' }), /a time to come/)
    await assert.rejects(ACTIONS.pause.run(spool, { until: 'soon' }), /until: expected epoch seconds/)
  })

  it('scale says that no daemon runs the spool, or which number it expects', async () => {
    const spool = spoolDirectory()
    await assert.rejects(ACTIONS.scale.run(spool, { to: '3' }), /no daemon runs this spool/)
    await assert.rejects(ACTIONS.scale.run(spool, { to: 'many' }), /to: expected N/)
  })

  it('enqueue stores a task with its time and priority, and nothing outside of the spool', async () => {
    const spool = spoolDirectory()
    const args = { vars: '{"to":"joe"}', body: 'text', at: '+1h', priority: '7' }
    await ACTIONS.enqueue.run(spool, args)
    const [left = ''] = leftIn(spool)
    assert.match(left, /^7\//)
    assert.equal(stateOf(spool, left), 'waiting')
    assert.ok(readFileSync(join(spool, left)).toString('latin1').endsWith('text'))
    for (const wrong of [{ priority: '../..' }, { vars: '{"spooler":"/tmp"}' }, { at: '9999999999999' }])
      await assert.rejects(ACTIONS.enqueue.run(spool, { ...args, ...wrong }))
    assert.equal(leftIn(spool).length, 1)
  })
})

describe('actions in bulk', () => {
  it('apply to the tasks that fit and may have them, and to no more than is allowed', async () => {
    const spool = spoolDirectory()
    const names = ['joe', 'joe', 'ann', 'joe'].map(to => ({ name: taskName(), to }))
    for (const { name, to } of names) drop(spool, name, packet({ to }))
    const first = names[0]?.name ?? ''
    await acted(spool, first, ACTIONS.hold)
    const store = await openTaskStore(spool)
    const selection = selectionOf({ key: ['to=joe'] })
    const few = await selectTasks(store, ACTIONS.hold, selection, 1)
    assert.deepEqual([few.refs.length, few.isWhole], [1, false])
    const { refs, isWhole } = await selectTasks(store, ACTIONS.hold, selection)
    assert.deepEqual([refs.length, isWhole], [2, true])
    await acted(spool, refs[0] ?? '', ACTIONS.remove)
    const tally = await actOnTasks(await openTaskStore(spool), ACTIONS.hold, refs)
    assert.deepEqual(tally, { done: 1, gone: 1, running: 0, refused: 0 })
    const held = await selectTasks(await openTaskStore(spool), ACTIONS.release, selectionOf({}))
    assert.deepEqual([...held.refs].sort(), [first, refs[1]].sort())
    assert.equal(
      (await selectTasks(await openTaskStore(spool), ACTIONS.requeue, selectionOf({}))).refs.length,
      0,
    )
  })
})
