import type { Ref } from '../../base/task/ref.js'
import { type Keyed, keyed, windowsInOrder } from '../spool/admin/ref-window.js'
import type { SpoolView } from '../spool/admin/task-view.js'
import { createdAtMicros } from '../spool/names.js'
import type { ScanVisitor } from '../spool/scan.js'

type Test = (ref: Ref) => boolean

interface Hearer {
  /** Hears how many there are, before the first of them. */
  readonly counted?: ((count: number) => void) | undefined
  /** Hears of a priority that cannot be listed. */
  readonly failed: ScanVisitor['failed']
}

/** All living tasks of a spool, before any of them is changed: changes would change the listing. */
export async function* allRefs(
  look: SpoolView,
  mayHave: Test,
  { counted, failed }: Hearer,
): AsyncGenerator<readonly Ref[]> {
  const refs: Ref[] = []
  await look.scan(ref => {
    if (mayHave(ref)) refs.push(ref)
    return true
  }, failed)
  counted?.(refs.length)
  yield refs
}

/** By priority, and by what their names say, which no change changes; as many at a time as a window has. */
export async function* refsInOrder(
  look: SpoolView,
  mayHave: Test,
  { counted, failed }: Hearer,
): AsyncGenerator<readonly Ref[]> {
  let isFirst = true
  const offerAll = async (offer: (task: Keyed) => void) => {
    let count = 0
    const offerOne = (ref: Ref) => {
      if (!mayHave(ref)) return true
      count++
      offer(keyed(ref, createdAtMicros(ref) ?? 0))
      return true
    }
    await look.scan(offerOne, isFirst ? failed : () => {}) // it is listed once for each window
    if (isFirst) counted?.(count)
    isFirst = false
  }
  for await (const window of windowsInOrder(offerAll, { byPriority: true, isReversed: false }))
    yield [...window.inOrder()].map(({ ref }) => ref)
}
