import type { Parked } from '../../../base/task/parked.js'
import { HEADER_BYTES } from '../../../formats/protocol/header.js'
import type { Hide } from '../../../formats/protocol/hide.js'
import { isNamed, TASK_KEY, taskNameOf } from '../../../formats/protocol/named.js'
import { encodePacket } from '../../../formats/protocol/packet.js'
import type { Sight } from '../../../formats/protocol/sight.js'
import { parseVars, type Vars } from '../../../formats/protocol/vars.js'
import type { DeadLetter } from '../dead-letters.js'
import type { TaskView } from './task-view.js'

/** A task as somebody may see it. Its body is not in it. */
export function seenTask(task: TaskView, { mayReadPayload, hide }: Sight): TaskView {
  return mayReadPayload ? withoutHidden(task, hide) : withoutPayload(task)
}

/** A dead letter whose task is not at hand. */
export function seenLetter(letter: DeadLetter, { mayReadPayload, hide }: Sight): DeadLetter {
  return mayReadPayload && !hide.isEverything ? letterWithoutHidden(letter, hide, []) : letterWithout(letter)
}

function withoutHidden(task: TaskView, hide: Hide): TaskView {
  if (!hide.isOn) return task
  if (hide.isEverything) return withKeysOnly(task, hide)
  const { file, record, letter, parked } = task
  const secrets = file.vars === undefined ? [] : hide.secretsIn(file.vars)
  return {
    ...task,
    file: { ...file, vars: file.vars === undefined ? undefined : hide.vars(file.vars) },
    ...(record === undefined ? {} : { record: hide.texts(record, secrets) }),
    ...(letter === undefined ? {} : { letter: letterWithoutHidden(letter, hide, secrets) }),
    ...(parked === undefined ? {} : { parked: hide.texts(parked, secrets) }), // a pause names a value
  }
}

function withKeysOnly(task: TaskView, hide: Hide): TaskView {
  const { vars } = task.file
  return {
    ...withoutPayload(task),
    file: { ...task.file, vars: vars === undefined ? undefined : hide.vars(vars) },
  }
}

/** A handler may be a command of the configuration. */
function letterWithoutHidden(letter: DeadLetter, hide: Hide, secrets: readonly string[]): DeadLetter {
  const handlers = letter.handlers.map(each => hide.configured(each))
  return { ...hide.texts(letter, secrets), handlers }
}

/** Without keys, values and errors, which may have values in them. */
function withoutPayload({ record, letter, file, parked, ...task }: TaskView): TaskView {
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

function letterWithout(letter: DeadLetter): DeadLetter {
  const { lastError: _error, ...rest } = letter
  return { ...rest, detail: '', handlers: [] }
}

/** A pause names a value; the other reasons name functions. */
function parkedWithout(parked: Parked): Parked {
  return parked.reason === 'paused' ? { ...parked, detail: 'paused' } : parked
}
