import type { Stream } from '../../base/events/event-map.js'
import { partsOf } from '../ipc/frames.js'
import type { WorkerMessage } from '../ipc/messages.js'

/** The limit of text on its way to the master. Above it a writer has to wait, where that is possible. */
const HIGH_WATER_CHARS = 1024 * 1024

/** Sends what handlers print to the master. The loop has announced the author's run before. */
export class Printer {
  readonly #send: (message: WorkerMessage, sent: () => void) => void
  readonly #shown: (text: string) => string
  #waitingChars = 0

  /** @param shown leaves out what is hidden */
  constructor(send: (message: WorkerMessage, sent: () => void) => void, shown: (text: string) => string) {
    this.#send = send
    this.#shown = shown
  }

  get isBehind(): boolean {
    return this.#waitingChars > HIGH_WATER_CHARS
  }

  /** @param author the number of the task that printed it, if that is known */
  print(author: number | null, stream: Stream, printed: string, sent: () => void = () => {}): void {
    if (printed === '') return sent()
    const text = this.#shown(printed)
    this.#waitingChars += text.length
    const parts = partsOf(text)
    for (const [i, part] of parts.entries())
      this.#send({ type: 'output', number: author, stream, text: part }, () => {
        this.#waitingChars -= part.length
        if (i === parts.length - 1) sent()
      })
  }
}
