import { setImmediate } from 'node:timers/promises'

const LINES_A_TURN = 1000

/** Prints what may be a million lines, with a pause now and then, in which a reader that has gone is noticed. */
export async function printLines(lines: Iterable<string>): Promise<void> {
  let count = 0
  for (const line of lines) {
    console.log(line)
    if (++count % LINES_A_TURN === 0) await setImmediate()
  }
}
