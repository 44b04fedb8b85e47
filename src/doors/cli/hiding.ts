import { hiddenTask } from '../../engines/spool/admin/hidden-task.js'
import type { TaskView } from '../../engines/spool/admin/task-view.js'
import type { Hide } from '../../formats/protocol/hide.js'

/** Prints the tasks of one spool. */
export interface Printer {
  /** Returns false if it wants no more. */
  add(task: TaskView): boolean
  end(): void
}

/** Prints the tasks of a spool without what its daemon hides. */
export function hiding(hide: Hide, printer: Printer): Printer {
  return { add: task => printer.add(hiddenTask(task, hide)), end: () => printer.end() }
}
