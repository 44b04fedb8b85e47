import { realpathSync } from 'node:fs'
import { messageOf } from '../../base/errors.js'
import { readLocks } from '../../files/lock-table.js'
import { actOnTasks, type Tally } from '../../operate/act.js'
import { findAction } from '../../operate/actions.js'
import { openSpool } from '../../spool/admin/change.js'
import { SpoolView } from '../../spool/admin/task-view.js'
import { toByteString } from '../../task/ref.js'
import type { Intent } from './state.js'

/** Does what was confirmed. @returns what came of it, for people */
export async function perform(directory: string, { action: name, rows, args }: Intent): Promise<string> {
  const action = findAction(name)
  if (action === undefined) return `${name} is no action`
  try {
    const spool = realpathSync(directory)
    if (action.on === 'spool') return await action.run(spool, args)
    const view = new SpoolView(toByteString(spool), readLocks(), Date.now())
    const refs = rows.flatMap(({ task }) => (task === undefined ? [] : [task.ref]))
    return outcome(action.done, await actOnTasks(await openSpool(spool), view, action, refs))
  } catch (error) {
    return `${name}: ${messageOf(error)}`
  }
}

function outcome(verb: string, { done, gone, running, refused, detail }: Tally): string {
  const count = (number: number) => number.toLocaleString('en')
  return [
    `${count(done)} ${verb}`,
    ...(gone === 0 ? [] : [`${count(gone)} gone: they have run, or were removed`]),
    ...(running === 0 ? [] : [`${count(running)} run, and were left alone`]),
    ...(refused === 0 ? [] : [`${count(refused)} refused: ${detail}`]),
  ].join('; ')
}
