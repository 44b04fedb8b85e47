import { constants } from 'node:fs'
import { open } from 'node:fs/promises'

const MAX_BYTES = 4096

/**
 * The text of a file that others must not read, without the blanks around it. It is read anew each time, so a new secret
 * needs no reload.
 *
 * @throws Error that names the file, and never what is in it
 */
export async function privateText(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK) // it may be a fifo
  try {
    const stats = await file.stat()
    if (!stats.isFile()) throw new Error(`${path}: expected a regular file`)
    if ((stats.mode & 0o027) !== 0)
      throw new Error(
        `${path}: expected a file that others cannot read, got mode ${(stats.mode & 0o777).toString(8)}; run chmod 600`,
      )
    const { buffer, bytesRead } = await file.read(Buffer.alloc(MAX_BYTES + 1), 0, MAX_BYTES + 1, 0)
    const text = buffer.toString('utf8', 0, bytesRead).trim()
    if (text === '' || bytesRead > MAX_BYTES)
      throw new Error(`${path}: expected 1 to ${MAX_BYTES} bytes, got ${bytesRead}`)
    return text
  } finally {
    await file.close()
  }
}
