import type { ChildProcess } from 'node:child_process'
import { setTimeout } from 'node:timers/promises'

const LAST_WORDS_MS = 1000

/** Resolves with code and signal once a child has ended and its last message was read; both null: it was never forked. */
export async function childExit(
  child: ChildProcess,
): Promise<readonly [code: number | null, signal: string | null]> {
  const how = await new Promise<readonly [number | null, string | null]>(resolve => {
    child.once('exit', (code, signal) => resolve([code, signal]))
    child.on('error', () => {
      if (child.pid === undefined) resolve([null, null]) // the fork failed: no exit follows
    })
  })
  // the kernel may tell of the death before the last words are read
  if (child.connected)
    await Promise.race([new Promise(read => child.once('disconnect', read)), setTimeout(LAST_WORDS_MS)])
  return how
}
