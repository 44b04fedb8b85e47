import type { Hide } from '../../../formats/protocol/hide.js'
import type { TaskView } from './task-view.js'

/** A task as people see it: without the values that `spooler-hide` names. Its body is not in it. */
export function hiddenTask(task: TaskView, hide: Hide): TaskView {
  if (!hide.isOn) return task
  const { file, record, letter, parked } = task
  return {
    ...task,
    file: { ...file, vars: file.vars === undefined ? undefined : hide.vars(file.vars) },
    ...(record === undefined ? {} : { record: hide.texts(record) }),
    ...(letter === undefined ? {} : { letter: hide.texts(letter) }),
    ...(parked === undefined ? {} : { parked: hide.texts(parked) }), // a pause names a value
  }
}
