import { describe, SpooldError } from '../base/errors.js'

/** Names are in file names of slots and in log lines: what a file system and a terminal take. */
const MAX_NAME_BYTES = 200
const EXPECTED = `1 to ${MAX_NAME_BYTES} bytes without spaces and control characters that do not begin with _`

/** @throws SpooldError TASK_INVALID */
export function checkName(name: unknown): asserts name is string {
  if (!isName(name))
    throw new SpooldError('TASK_INVALID', `a task's name must be ${EXPECTED}, got ${describe(name)}`, {
      details: { got: name },
    })
}

/** @returns what a queue's name must be, if this is none */
export function checkedQueue(name: unknown): string | undefined {
  return isName(name) && !/[=,]/.test(name) ? undefined : `${EXPECTED} and have no = or ,`
}

function isName(name: unknown): name is string {
  return (
    typeof name === 'string' && /^(?!_)[^\s\p{C}]+$/u.test(name) && Buffer.byteLength(name) <= MAX_NAME_BYTES
  )
}
