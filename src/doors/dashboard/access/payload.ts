import type { Parked } from '../../../base/task/parked.js'
import type { TaskView } from '../../../engines/spool/admin/task-view.js'
import { HEADER_BYTES } from '../../../formats/protocol/header.js'
import { isNamed, TASK_KEY, taskNameOf } from '../../../formats/protocol/named.js'
import { encodePacket } from '../../../formats/protocol/packet.js'
import { parseVars, type Vars } from '../../../formats/protocol/vars.js'

/** A task as seen by whoever may not read its payload: without keys, values and errors, which may have values in them. */
export function withoutPayload({ record, letter, file, parked, ...task }: TaskView): TaskView {
  return {
    ...task,
    file: { ...file, vars: nameOnly(file.vars) },
    ...(record === undefined ? {} : { record: recordWithout(record) }),
    ...(letter === undefined ? {} : { letter: letterWithout(letter) }),
    ...(parked === undefined ? {} : { parked: parkedWithout(parked) }),
  }
}

/** The name of a named task is that of a function. */
function nameOnly(vars: Vars | undefined): Vars | undefined {
  const name = vars !== undefined && isNamed(vars) ? taskNameOf(vars) : undefined
  if (name === undefined) return undefined
  const packet = encodePacket([[Buffer.from(TASK_KEY), Buffer.from(name, 'latin1')]])
  const parsed = parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length)
  return 'fault' in parsed ? undefined : parsed
}

function recordWithout(record: NonNullable<TaskView['record']>): NonNullable<TaskView['record']> {
  const { lastError: _error, history = [], burial, ...rest } = record
  return {
    ...rest,
    history: history.map(({ at, kind }) => ({ at, kind })),
    ...(burial === undefined ? {} : { burial: { ...burial, detail: '' } }),
  }
}

function letterWithout(letter: NonNullable<TaskView['letter']>): NonNullable<TaskView['letter']> {
  const { lastError: _error, ...rest } = letter
  return { ...rest, detail: '' }
}

/** A pause names a value; the other reasons name functions. */
function parkedWithout(parked: Parked): Parked {
  return parked.reason === 'paused' ? { ...parked, detail: 'paused' } : parked
}
