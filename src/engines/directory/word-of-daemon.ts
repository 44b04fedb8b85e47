import { setTimeout as sleep } from 'node:timers/promises'
import { hasFields } from '../../base/json-guard.js'
import type { Ref } from '../../base/task/ref.js'
import { MAX_REQUEST_BYTES } from '../../formats/control/protocol.js'
import { askDaemon } from '../control/client.js'

/** The refs of tasks that have ended, as a daemon says. */
export interface Word {
  readonly done: readonly Ref[]
  readonly dead: readonly Ref[]
}

/** Bytes of a request that are left for everything but the tasks: for the spool's path and the frame of the request. */
const OTHER_BYTES = 8192
/**
 * How many requests a waiter keeps open, because a daemon has 64 connections for all its clients. Tasks beyond these
 * requests are only looked at.
 */
const MOST_REQUESTS = 8
/** How long a daemon may take until it begins to listen. */
const BEGIN_MS = 2000

/**
 * Listens to what one daemon says about tasks, over its control socket.
 *
 * @param path of the socket
 */
export class WordOfDaemon {
  /** Resolves when the daemon can say no more. */
  readonly ended: Promise<void>
  /** Resolves once no end of a task is missed any more, or once it is clear that this cannot be had. */
  readonly begun: Promise<void>
  readonly #abort = new AbortController()
  #isListening = false

  constructor(path: string, spool: string, refs: readonly Ref[], say: (word: Word) => void) {
    const requests = chunksOf(refs).map(tasks => this.#ask(path, { spool, tasks }, say))
    const allBegun = Promise.all(requests.map(({ begun }) => begun)).then(each => {
      this.#isListening = each.every(Boolean)
    })
    this.begun = Promise.race([allBegun, sleep(BEGIN_MS, undefined, { ref: false })])
    const end = () => {
      this.#isListening = false
      this.close()
    }
    this.ended = Promise.all(requests.map(({ ended }) => ended)).then(end, end)
  }

  /** True while the daemon says how the tasks that it runs end. */
  get isListening(): boolean {
    return this.#isListening
  }

  close(): void {
    this.#abort.abort()
  }

  #ask(path: string, args: WaitArgs, say: (word: Word) => void) {
    let begin = (_hasBegun: boolean) => {}
    const begun = new Promise<boolean>(resolve => {
      begin = resolve
    })
    const ended = askDaemon(path, 'wait', args, {
      silenceMs: Number.POSITIVE_INFINITY,
      signal: this.#abort.signal,
      event(event) {
        begin(true)
        if (hasFields(event, { done: 'texts', dead: 'texts' }, {})) say(event as Word)
      },
    })
    const failed = () => begin(false)
    ended.then(failed, failed)
    return { begun, ended }
  }
}

interface WaitArgs {
  readonly spool: string
  readonly tasks: readonly Ref[]
}

/** Splits refs into the requests of one client. Refs that do not fit are left out. */
export function chunksOf(refs: readonly Ref[]): Ref[][] {
  const chunks: Ref[][] = []
  let room = 0
  for (const ref of refs) {
    const bytes = Buffer.byteLength(JSON.stringify(ref)) + 1
    if (bytes > room) {
      if (chunks.length === MOST_REQUESTS) break
      chunks.push([])
      room = MAX_REQUEST_BYTES - OTHER_BYTES
    }
    room -= bytes
    chunks.at(-1)?.push(ref)
  }
  return chunks
}
