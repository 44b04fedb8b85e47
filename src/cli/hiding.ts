import { hiddenTask } from '../spool/admin/hidden-task.js'
import type { TaskView } from '../spool/admin/task-view.js'
import { hiddenKeysOf } from '../spool/hidden-keys.js'

/** Prints the tasks of one spool. */
export interface Printer {
  /** Returns false if it wants no more. */
  add(task: TaskView): boolean
  end(): void
}

/** Prints the tasks of a spool without what its daemon hides. @param spool its real path, a byte string */
export function hiding(spool: string, printer: Printer): Printer {
  const hide = hiddenKeysOf(spool)
  return { add: task => printer.add(hiddenTask(task, hide)), end: () => printer.end() }
}
