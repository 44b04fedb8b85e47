import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'

/** A longer line is cut into several. */
const MAX_LINE_CHARS = 8192
/** A process that outlives the program may hold its output open: how long to keep reading it. */
const LAST_WORDS_MS = 100

/**
 * Logs what a program prints, line by line. What it prints faster than the log takes it waits in its pipe.
 *
 * @param log resolves when there is room for more
 * @returns waits for the last words of a program that has ended, and stops listening
 */
export function logLines(stream: Readable | null, log: (line: string) => Promise<void>): () => Promise<void> {
  if (stream === null) return async () => {}
  let timer: NodeJS.Timeout | undefined
  const logAndWait = async (line: string) => {
    await log(line)
    timer?.refresh()
  }
  const done = pump(stream, logAndWait).catch(() => {}) // destroyed below
  return async () => {
    timer = setTimeout(() => stream.destroy(), LAST_WORDS_MS)
    await done
    clearTimeout(timer)
  }
}

async function pump(stream: Readable, log: (line: string) => Promise<void>): Promise<void> {
  const decoder = new StringDecoder('utf8')
  let rest = ''
  try {
    for await (const chunk of stream) {
      const lines = (rest + decoder.write(chunk)).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) await logCut(line, log)
      if (rest.length > MAX_LINE_CHARS) {
        await logCut(rest, log)
        rest = ''
      }
    }
  } finally {
    rest += decoder.end()
    if (rest !== '') await logCut(rest, log)
  }
}

async function logCut(line: string, log: (line: string) => Promise<void>): Promise<void> {
  for (let at = 0; at === 0 || at < line.length; at += MAX_LINE_CHARS)
    await log(line.slice(at, at + MAX_LINE_CHARS))
}
