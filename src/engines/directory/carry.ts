import { statSync } from 'node:fs'
import { displayName, type Ref, toFsPath } from '../../base/task/ref.js'
import {
  type Changed,
  changeInSteps,
  type OpenSpool,
  refused,
  remove,
  type TargetFile,
} from '../spool/admin/change.js'
import { rename, send } from '../spool/admin/move.js'
import type { TaskStore } from '../task-store.js'

/**
 * Moves a task to another store: by a rename, if that can be.
 *
 * @param directory opens that of the other store, if it is one
 * @throws what leaves it unknown whether it has arrived
 */
export async function moveTask(
  from: OpenSpool,
  ref: Ref,
  to: TaskStore,
  directory: () => Promise<OpenSpool> | undefined,
): Promise<Changed> {
  if (to.spool === from.spool) return refused('it is there already')
  const target = await directory()
  const isNear = target !== undefined && isOnOneFileSystem(from.spool, target.spool)
  return changeInSteps(
    from,
    ref,
    async file => (isNear ? rename(from, target, file) : undefined) ?? carry(from, file, to),
  )
}

function isOnOneFileSystem(...spools: readonly string[]): boolean {
  const [one, other] = spools.map(spool => statSync(toFsPath(spool)).dev)
  return one === other
}

/**
 * Takes a task to another store, in steps. After a kill after each of them, the same move goes on where it was:
 *
 * 1. it is held here, with the key that the other store will know it by: no daemon runs it;
 * 2. it is there, and runs: whoever brings it once more, with its key, brings nothing;
 * 3. it is removed here;
 * 4. the other store may forget the key.
 *
 * @throws what leaves it unknown whether it has arrived
 */
async function carry(from: OpenSpool, file: TargetFile, to: TaskStore): Promise<Changed> {
  const sent = send(from, file, displayName(to.spool))
  if ('kind' in sent) return sent
  const received = await to.receive(sent.parcel, sent.key)
  if (received.kind === 'refused') {
    sent.takeBack()
    return refused(received.detail)
  }
  remove(from, file)
  await to.forget(sent.key)
  return { kind: 'done', to: received.ref }
}
