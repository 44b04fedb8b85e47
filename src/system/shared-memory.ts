import { closeSync, fstatSync, ftruncateSync, openSync, unlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { messageOf } from '../base/errors.js'
import { crypto } from '../base/on-demand.js'
import type { Mapping } from './calls.js'
import { systemCalls } from './libc.js'

/**
 * Opens `bytes` zero bytes for processes that inherit the descriptor. They are in memory if possible, because hosts write
 * there for each task. They have no name, so they go with the last process that has them open.
 *
 * @throws Error what was tried
 */
export function openShared(bytes: number): number {
  const refused: string[] = []
  for (const open of [inMemory, inFile('/dev/shm'), inFile(tmpdir())])
    try {
      return open(bytes)
    } catch (error) {
      refused.push(messageOf(error))
    }
  throw new Error(`no memory can be shared with other processes: ${refused.join('; ')}`)
}

/**
 * Maps what the parent has opened by `openShared`.
 *
 * @returns undefined if the descriptor is something else
 * @throws Error why it cannot be mapped
 */
export function mapInherited(fd: number, bytes: number): Mapping | undefined {
  return fstatSync(fd).size === bytes ? systemCalls().mapShared(fd, bytes) : undefined
}

function inMemory(bytes: number): number {
  const fd = systemCalls().memoryFile()
  ftruncateSync(fd, bytes)
  return fd
}

/** Takes the room at once: a process that later wrote where a full file system has no room would be killed (SIGBUS). */
function inFile(directory: string): (bytes: number) => number {
  return bytes => {
    const path = join(directory, `spoold-host-${crypto().randomUUID()}`)
    const fd = openSync(path, 'wx+', 0o600)
    try {
      unlinkSync(path)
      writeFileSync(fd, Buffer.alloc(bytes))
      return fd
    } catch (error) {
      closeSync(fd)
      throw error
    }
  }
}
