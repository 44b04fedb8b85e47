import { describe } from '../../base/errors.js'

/** The types of values; docs/enqueue.md lists their bytes. */
export type Value = string | number | bigint | boolean | Date | ArrayBuffer | ArrayBufferView

/**
 * Returns the bytes of a value: text as UTF-8, numbers in decimal, `true` and `false`, dates as ISO 8601 in UTC, binary values
 * unchanged.
 *
 * @throws TypeError that names the key
 */
export function bytesOf(key: string, value: unknown): Buffer {
  switch (typeof value) {
    case 'string':
      return Buffer.from(value)
    case 'number':
      if (Number.isFinite(value)) return Buffer.from(String(value))
      break
    case 'bigint':
    case 'boolean':
      return Buffer.from(String(value))
    case 'object': {
      if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
      if (value instanceof ArrayBuffer) return Buffer.from(value)
      if (value instanceof Date && Number.isFinite(value.getTime())) return Buffer.from(value.toISOString())
    }
  }
  throw new TypeError(
    `the value of ${JSON.stringify(key)} must be a string, bytes, a finite number, a boolean or a valid Date, got ${describe(value)}`,
  )
}
