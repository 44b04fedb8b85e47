import type { Ref } from '../../base/task/ref.js'
import { type Keyed, keyed, windowsInOrder } from '../spool/admin/ref-window.js'
import type { SpoolView } from '../spool/admin/task-view.js'
import { createdAtMicros } from '../spool/names.js'

type Test = (ref: Ref) => boolean

/** All living tasks of a spool, before any of them is changed: changes would change the listing. */
export async function* allRefs(look: SpoolView, mayHave: Test): AsyncGenerator<readonly Ref[]> {
  const refs: Ref[] = []
  await scan(look, ref => {
    if (mayHave(ref)) refs.push(ref)
  })
  yield refs
}

/** By priority, and by what their names say, which no change changes; as many at a time as a window has. */
export async function* refsInOrder(look: SpoolView, mayHave: Test): AsyncGenerator<readonly Ref[]> {
  const offerAll = (offer: (task: Keyed) => void) =>
    scan(look, ref => {
      if (mayHave(ref)) offer(keyed(ref, createdAtMicros(ref) ?? 0))
    })
  for await (const window of windowsInOrder(offerAll, { byPriority: true, isReversed: false }))
    yield [...window.inOrder()].map(({ ref }) => ref)
}

function scan(look: SpoolView, visit: (ref: Ref) => void): Promise<void> {
  const each = (ref: Ref) => {
    visit(ref)
    return true
  }
  return look.scan(each, (_prefix, error) => {
    throw error
  })
}
