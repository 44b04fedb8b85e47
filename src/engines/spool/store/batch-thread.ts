import { parentPort } from 'node:worker_threads'
import { errnoOf, messageOf } from '../../../base/errors.js'
import type { Owner } from '../permissions.js'
import { writeInPlace } from './draft.js'

/** The tasks that the thread should write: complete packets, concatenated. */
export interface Chunk {
  /** Byte strings. */
  readonly paths: readonly string[]
  readonly packets: Uint8Array
  /** The end of each packet. */
  readonly ends: readonly number[]
  readonly owner: Owner | undefined
}

/**
 * The tasks that could not be written: the position of each in the chunk, and the error's message and errno. An error that
 * crosses threads would lose its code.
 */
export type ChunkFailures = ReadonlyArray<
  readonly [place: number, message: string, errno: string | undefined]
>

/** The entry of the second thread of write-batch.ts. Its first message says that the thread has started. */
parentPort?.postMessage([] satisfies ChunkFailures)
parentPort?.on('message', (chunk: Chunk) => parentPort?.postMessage(writeChunk(chunk)))

function writeChunk({ paths, packets, ends, owner }: Chunk): ChunkFailures {
  return paths.flatMap((path, place) => {
    try {
      writeInPlace(path, packets.subarray(ends[place - 1] ?? 0, ends[place]), owner)
      return []
    } catch (error) {
      return [[place, messageOf(error), errnoOf(error)] as const]
    }
  })
}
