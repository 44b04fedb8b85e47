import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** Tasks that begin while a listener is there, and end while none is there, or again one. */
const TASKS = `
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { events, Tasks } from 'spoold'
export const tasks = new Tasks()
setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc')
const heard = []
const begins = ({ task }) => {
  heard.push(new WeakRef(task.args[0]))
  events.off('task-started', begins)
}
tasks.task('listens', () => { events.on('task-started', begins) })
tasks.task('runs', () => {})
tasks.task('returns', () => { events.on('task-finished', finished) })
const finished = ({ task }) => {
  JOURNAL('finished ' + task.name)
  events.off('task-finished', finished)
}
tasks.task('looks', async () => {
  for (let i = 0; i < 20; i++) {
    await turn()
    gc()
  }
  JOURNAL('kept ' + heard.filter(each => each.deref() !== undefined).length + ' of ' + heard.length)
})
`

describe('the events of a worker', () => {
  it('keep nothing of tasks that end without a listener, and tell the end of a task that was heard to begin', async () => {
    const spool = spoolDirectory()
    const names = ['listens', 'runs', 'listens', 'runs', 'listens', 'runs', 'listens', 'returns', 'looks']
    for (const [i, task] of names.entries())
      drop(spool, `uwsgi_spoolfile_on_${i}`, packet({ task, args: JSON.stringify([{ of: i }]) }))
    const daemon = await startDaemon({ spool, handler: TASKS, ini: { 'spooler-ordered': true } })
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal(), ['finished returns', 'kept 0 of 4'])
  })
})
