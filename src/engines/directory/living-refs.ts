import type { Ref } from '../../base/task/ref.js'
import { type Keyed, keyed, windowsInOrder } from '../spool/admin/ref-window.js'
import type { SpoolView } from '../spool/admin/task-view.js'
import { createdAtMicros } from '../spool/names.js'

type Test = (ref: Ref) => boolean

/**
 * All living tasks of a spool, before any of them is changed: changes would change the listing.
 *
 * @param counted hears how many there are, before the first of them
 */
export async function* allRefs(
  look: SpoolView,
  mayHave: Test,
  counted: (count: number) => void = () => {},
): AsyncGenerator<readonly Ref[]> {
  const refs: Ref[] = []
  await scan(look, ref => {
    if (mayHave(ref)) refs.push(ref)
  })
  counted(refs.length)
  yield refs
}

/** By priority, and by what their names say, which no change changes; as many at a time as a window has. */
export async function* refsInOrder(
  look: SpoolView,
  mayHave: Test,
  counted: (count: number) => void = () => {},
): AsyncGenerator<readonly Ref[]> {
  let isFirst = true
  const offerAll = async (offer: (task: Keyed) => void) => {
    let count = 0
    await scan(look, ref => {
      if (!mayHave(ref)) return
      count++
      offer(keyed(ref, createdAtMicros(ref) ?? 0))
    })
    if (isFirst) counted(count)
    isFirst = false
  }
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
