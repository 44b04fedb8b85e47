import { randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, rename, rm, writeFile } from 'node:fs/promises'
import { messageOf, SpooldError } from '../base/errors.js'
import { encodePacket } from '../protocol/packet.js'
import { displayName, toFsPath } from '../task/ref.js'
import type { Request } from '../task/request.js'
import { createTaskName } from './file-name.js'

export interface WriteOptions {
  /** The spool directory's real path, a byte string. */
  readonly spool: string
  /** Data and directory entry are on disk before the promise resolves. */
  readonly sync: boolean
}

/**
 * Stores a task as uWSGI does (core/spooler.c, uwsgi_spool_request): its name, mode 0600, mtime and atime set to `at`.
 * It is written under a dot-name and published by rename, so that nobody ever reads half of it.
 *
 * @returns the file's path
 * @throws SpooldError REQUEST_INVALID before anything is written, ENQUEUE_FAILED after nothing was left behind
 */
export async function writeTask(request: Request, { spool, sync }: WriteOptions): Promise<string> {
  const packet = encodePacket(request.vars)
  const directory = await makeDirectory(spool, request.priority)
  const hidden = toFsPath(`${directory}/.spoold-${randomUUID()}.tmp`)
  const path = `${directory}/${createTaskName()}`
  try {
    await fill(hidden, packet, request, sync)
    await rename(hidden, toFsPath(path))
    if (sync) await syncDirectory(directory)
    return displayName(path)
  } catch (error) {
    await rm(hidden, { force: true }).catch(() => {})
    throw new SpooldError(
      'ENQUEUE_FAILED',
      `the task could not be stored in ${displayName(directory)}: ${messageOf(error)}`,
      {
        cause: error,
        details: { path: displayName(path) },
      },
    )
  }
}

async function makeDirectory(spool: string, priority: string | undefined): Promise<string> {
  if (priority === undefined) return spool
  if (!/^[0-9]{1,255}$/.test(priority))
    throw new SpooldError(
      'REQUEST_INVALID',
      `priority must be digits only, got ${JSON.stringify(priority)}`,
      {
        details: { key: 'priority', got: priority },
      },
    )
  const directory = `${spool}/${priority}`
  await mkdir(toFsPath(directory)).catch(error => {
    if (error.code !== 'EEXIST')
      throw new SpooldError(
        'ENQUEUE_FAILED',
        `${displayName(directory)} cannot be made: ${messageOf(error)}`,
        { cause: error },
      )
  })
  return directory
}

async function fill(
  path: string | Buffer,
  packet: Buffer,
  { body, atSeconds }: Request,
  sync: boolean,
): Promise<void> {
  const file: FileHandle = await open(path, 'wx', 0o600)
  try {
    await file.writeFile(packet)
    if (body !== undefined) await writeFile(file, body)
    if (atSeconds !== undefined) await file.utimes(atSeconds, atSeconds)
    if (sync) await file.datasync()
  } finally {
    await file.close()
  }
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(toFsPath(path), 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}
