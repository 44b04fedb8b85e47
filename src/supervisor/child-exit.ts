import type { ChildProcess } from 'node:child_process'
import { setTimeout } from 'node:timers/promises'

const LAST_WORDS_MS = 1000

export interface ChildExit {
  readonly code: number | null
  readonly signal: string | null
  /** Why it was never forked. */
  readonly unforked?: string
}

/** Resolves once a child has ended and its last message was read. */
export async function childExit(child: ChildProcess): Promise<ChildExit> {
  const how = await new Promise<ChildExit>(resolve => {
    child.once('exit', (code, signal) => resolve({ code, signal }))
    child.on('error', error => {
      if (child.pid === undefined) resolve({ code: null, signal: null, unforked: error.message }) // no exit follows
    })
  })
  // the kernel may tell of the death before the last words are read
  if (child.connected && how.unforked === undefined)
    await Promise.race([new Promise(read => child.once('disconnect', read)), setTimeout(LAST_WORDS_MS)])
  return how
}
