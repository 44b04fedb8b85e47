import { shellWord } from '../../base/printable.js'
import { seenTask, type TaskView } from '../../engines/spool/admin/task-view.js'
import type { TaskStore } from '../../engines/task-store.js'
import type { Hide } from '../../formats/protocol/hide.js'
import { ownersSight } from '../../formats/protocol/sight.js'
import type { Output } from './output.js'

/** Prints the tasks of one spool. */
export interface Printer {
  /** Returns false if the printer takes no more tasks. */
  add(task: TaskView): boolean
  end(): void
}

/**
 * Returns what a command hides in a spool. If that is everything, one line on standard error says why.
 *
 * @param shown the spool as it was named
 */
export async function hideOf(store: TaskStore, shown: string, output: Output): Promise<Hide> {
  const hide = await store.hide()
  if (hide.isEverything)
    output.complain(
      `${shown}: all values are hidden, because no daemon answers for a list of hidden keys, and others may have taken it away or brought an older one back: ` +
        `they may write to the spool. Name its configuration with --ini, or keep them to their own files (chmod +t ${shellWord(shown)}) and start its daemon`,
    )
  return hide
}

/** Returns a printer that prints tasks without what their daemon hides. */
export function hiding(hide: Hide, printer: Pick<Printer, 'add'>): Pick<Printer, 'add'> {
  const sight = ownersSight(hide)
  return { add: task => printer.add(seenTask(task, sight)) }
}
