import { actOnTasks, type Tally } from '../../../admin/operate/act.js'
import { findAction, type TaskAction } from '../../../admin/operate/actions.js'
import { messageOf } from '../../../base/errors.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { type AuditEntry, namesForAudit } from '../../../engines/spool/admin/audit.js'
import type { TaskStore } from '../../../engines/task-store.js'
import { audit } from '../audit.js'
import { placeAt } from '../places.js'
import type { Daemons } from './source.js'
import type { Intent } from './state.js'

/** Does what was confirmed, which the audit has before. @returns what came of it, for people */
export async function perform(directory: string, intent: Intent, { sockets }: Daemons): Promise<string> {
  const { action: name, args } = intent
  const action = findAction(name)
  if (action === undefined) return `${name} is no action`
  const unaudited: string[] = []
  const announced = (store: TaskStore, about: Partial<AuditEntry>) =>
    audit(store, { action: name, ...about }, { complain: text => unaudited.push(text) })
  const done = async () => {
    const { spool } = placeAt(directory)
    if (action.on === 'task') return onTasks(spool, action, intent, sockets, announced)
    const store = await openTaskStore(spool)
    await announced(store, Object.keys(args).length === 0 ? {} : { filter: JSON.stringify(args) })
    return action.run(spool, args, { sockets })
  }
  const text = await done().catch(error => `${name}: ${messageOf(error)}`)
  return [text, ...unaudited].join('; ')
}

async function onTasks(
  spool: string,
  action: TaskAction,
  { rows }: Intent,
  sockets: Daemons['sockets'],
  announced: (store: TaskStore, about: Partial<AuditEntry>) => Promise<void>,
): Promise<string> {
  const refs = rows.flatMap(({ task }) => task?.ref ?? [])
  const store = await openTaskStore(spool, { sockets })
  await announced(store, { task: namesForAudit(refs), count: refs.length })
  return outcome(action.done, await actOnTasks(store, action, refs))
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
