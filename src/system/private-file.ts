import { constants } from 'node:fs'
import { open } from 'node:fs/promises'

interface PrivateFileRules {
  readonly maxBytes?: number
  /** The bits of the mode that it must not have. */
  readonly closedTo?: number
}

/**
 * The text of a file that others must not read, without the blanks around it. It is read anew each time, so a new secret
 * needs no reload.
 *
 * @throws Error that names the file, and never what is in it
 */
export async function privateText(
  path: string,
  { maxBytes = 4096, closedTo = 0o027 }: PrivateFileRules = {},
): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK) // it may be a fifo
  try {
    const stats = await file.stat()
    if (!stats.isFile()) throw new Error(`${path}: expected a regular file`)
    if ((stats.mode & closedTo) !== 0)
      throw new Error(
        `${path}: expected a file that others cannot read, got mode ${(stats.mode & 0o777).toString(8)}; run chmod 600`,
      )
    const { buffer, bytesRead } = await file.read(Buffer.alloc(maxBytes + 1), 0, maxBytes + 1, 0)
    const text = buffer.toString('utf8', 0, bytesRead).trim()
    if (text === '' || bytesRead > maxBytes)
      throw new Error(`${path}: expected 1 to ${maxBytes} bytes, got ${bytesRead}`)
    return text
  } finally {
    await file.close()
  }
}
