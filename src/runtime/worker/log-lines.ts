import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'

/** The most characters of a line. A longer one is split into several. */
const MAX_LINE_CHARS = 8192
/**
 * How long, in ms, and how much output is read after the end of a program, because a process that outlives it may still print.
 */
const LAST_WORDS_MS = 100
const LAST_WORDS_BYTES = 1024 * 1024

/**
 * Logs what a program prints, line by line. If it prints faster than the log accepts it, the output waits in the
 * pipe.
 *
 * @param log resolves when there is room for more
 * @returns a function that waits for the last output of a program that has ended, and then stops reading
 */
export function logLines(stream: Readable | null, log: (line: string) => Promise<void>): () => Promise<void> {
  if (stream === null) return async () => {}
  const lastWords = new LastWords(stream)
  const done = pump(stream, lastWords, log).catch(() => {}) // destroyed below
  return async () => {
    lastWords.begin()
    await done
    lastWords.pause()
  }
}

/** Ends a stream that has been read for long enough. The time that the log takes does not count. */
class LastWords {
  readonly #stream: Readable
  #hasBegun = false
  #isListening = true
  #msLeft = LAST_WORDS_MS
  #bytesLeft = LAST_WORDS_BYTES
  #since = 0
  #timer: NodeJS.Timeout | undefined

  constructor(stream: Readable) {
    this.#stream = stream
  }

  begin(): void {
    this.#hasBegun = true
    if (this.#isListening) this.listen()
  }

  listen(): void {
    this.#isListening = true
    if (!this.#hasBegun) return
    // a timer, even one of 0 ms, would never fire if more input always arrives first and clears it
    if (this.#bytesLeft <= 0 || this.#msLeft <= 0) return void this.#stream.destroy()
    this.#since = performance.now()
    // this process may have had no processor meanwhile: what has come is read between a timer and an immediate
    this.#timer = setTimeout(() => setImmediate(() => this.#endIfListening()), this.#msLeft)
  }

  #endIfListening(): void {
    if (this.#isListening) this.#stream.destroy()
  }

  /** Stops the clock. @param bytes how many bytes were read */
  pause(bytes = 0): void {
    this.#isListening = false
    if (!this.#hasBegun) return
    clearTimeout(this.#timer)
    this.#msLeft -= performance.now() - this.#since
    this.#bytesLeft -= bytes
  }
}

async function pump(
  stream: Readable,
  lastWords: LastWords,
  log: (line: string) => Promise<void>,
): Promise<void> {
  const decoder = new StringDecoder('utf8')
  let rest = ''
  try {
    for await (const chunk of stream) {
      lastWords.pause(chunk.length)
      const lines = (rest + decoder.write(chunk)).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) await logCut(line, log)
      if (rest.length > MAX_LINE_CHARS) {
        await logCut(rest, log)
        rest = ''
      }
      lastWords.listen()
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
