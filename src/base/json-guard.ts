/** `time`: a finite number. `count`: a non-negative integer. */
export type FieldKind = 'text' | 'time' | 'count' | 'flag' | 'list' | 'texts' | 'object' | 'objects'

const CHECKS: Readonly<Record<FieldKind, (value: unknown) => boolean>> = {
  text: value => typeof value === 'string',
  time: Number.isFinite,
  count: value => Number.isSafeInteger(value) && Number(value) >= 0,
  flag: value => typeof value === 'boolean',
  list: Array.isArray,
  texts: value => Array.isArray(value) && value.every(each => typeof each === 'string'),
  object: isObject,
  objects: value => Array.isArray(value) && value.every(isObject),
}

/**
 * Returns true if a value has all required fields, and if each known field has the right type. Unknown fields are ignored.
 * The value was parsed from JSON that other users could have written.
 */
export function hasFields(
  value: unknown,
  required: Readonly<Record<string, FieldKind>>,
  optional: Readonly<Record<string, FieldKind>>,
): boolean {
  if (!isObject(value)) return false
  const fields = new Map(Object.entries(value))
  const isRight = (name: string, kind: FieldKind) => CHECKS[kind](fields.get(name))
  return (
    Object.entries(required).every(([name, kind]) => isRight(name, kind)) &&
    Object.entries(optional).every(([name, kind]) => !fields.has(name) || isRight(name, kind))
  )
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
