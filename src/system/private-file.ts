import { closeSync, fstatSync, readSync } from 'node:fs'
import { Opener } from './opener.js'

interface PrivateFileRules {
  readonly maxBytes?: number
  /** The bits of the mode that the file must not have. */
  readonly closedTo?: number
}

/**
 * Returns the text of a file that others must not read, without the blanks around it. The file is read anew each time, so a
 * new secret needs no reload.
 *
 * @throws Error that names the file, and never what is in it
 */
export async function privateText(
  path: string,
  { maxBytes = 4096, closedTo = 0o027 }: PrivateFileRules = {},
): Promise<string> {
  const fd = new Opener(null).read(path)
  try {
    const stats = fstatSync(fd)
    if (!stats.isFile()) throw new Error(`${path}: expected a regular file`)
    if ((stats.mode & closedTo) !== 0)
      throw new Error(
        `${path}: expected a file that others cannot read, got mode ${(stats.mode & 0o777).toString(8)}; run chmod 600`,
      )
    const bytes = Buffer.alloc(maxBytes + 1)
    const bytesRead = readSync(fd, bytes)
    const text = bytes.toString('utf8', 0, bytesRead).trim()
    if (text === '' || bytesRead > maxBytes)
      throw new Error(`${path}: expected 1 to ${maxBytes} bytes, got ${bytesRead}`)
    return text
  } finally {
    closeSync(fd)
  }
}
