/**
 * The text that a feed gives to workers, and by which they claim a task. It is opaque to all but the engine. In a directory
 * it is a name for a task in one spool: its path relative to the spool, such as `uwsgi_spoolfile_on_web1_7_1_…` or
 * `5/uwsgi_spoolfile_on_…`. One character is one byte (latin1), because file names are bytes, and strverscmp orders bytes;
 * `displayName` is the form for people.
 */
export type Ref = string

/**
 * The name by which events and log lines call a task: its ref if that is a name, otherwise the name that its claim brought.
 * One character is one byte, as in a ref.
 */
export type TaskName = string

/** The last segment, which uWSGI calls the task's name. */
export function baseName(ref: Ref): string {
  return ref.includes('/') ? ref.slice(ref.lastIndexOf('/') + 1) : ref // lastIndexOf is slow in V8
}

/** The directory of a task: '' for the spool itself, `5/` for a priority. */
export function prefixOf(ref: Ref): string {
  return ref.includes('/') ? ref.slice(0, ref.lastIndexOf('/') + 1) : ''
}

/** The priority of a task (`5/…` is 5), or null in the spool itself. Lower runs first. */
export function priorityOf(ref: Ref): number | null {
  const cut = ref.indexOf('/')
  if (cut < 0) return null
  const priority = Number(ref.slice(0, cut))
  return Number.isNaN(priority) ? null : priority
}

const NOT_ASCII = /[\x80-\xff]/

/** Bytes as text for people: UTF-8, with the replacement character for invalid bytes. */
export function displayName(ref: Ref): string {
  return NOT_ASCII.test(ref) ? Buffer.from(ref, 'latin1').toString('utf8') : ref
}

/** The reverse: converts text to one character per byte. */
export function toByteString(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII is the point
  return /^[\x00-\x7f]*$/.test(text) ? text : Buffer.from(text, 'utf8').toString('latin1')
}

/** A byte-string path for `node:fs`: a plain string if that means the same, otherwise a Buffer. */
export function toFsPath(bytes: string): string | Buffer {
  return NOT_ASCII.test(bytes) ? Buffer.from(bytes, 'latin1') : bytes
}
