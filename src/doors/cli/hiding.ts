import { seenTask } from '../../engines/spool/admin/seen-task.js'
import type { TaskView } from '../../engines/spool/admin/task-view.js'
import type { Hide } from '../../formats/protocol/hide.js'
import { ownersSight } from '../../formats/protocol/sight.js'

/** Prints the tasks of one spool. */
export interface Printer {
  /** Returns false if it wants no more. */
  add(task: TaskView): boolean
  end(): void
}

/** Prints the tasks of a spool without what its daemon hides. */
export function hiding(hide: Hide, printer: Printer): Printer {
  const sight = ownersSight(hide)
  return { add: task => printer.add(seenTask(task, sight)), end: () => printer.end() }
}
