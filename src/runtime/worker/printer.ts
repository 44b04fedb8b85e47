import type { Stream } from '../../base/events/event-map.js'
import { partsOf } from '../ipc/frames.js'
import type { WorkerMessage } from '../ipc/messages.js'
import type { Said } from './handler-task.js'

/** The limit of text on its way to the master. Above it a writer has to wait, where that is possible. */
const HIGH_WATER_CHARS = 1024 * 1024

/** Sends what handlers print and log to the master. The author's run has been announced before. */
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
  print(author: number | null, stream: Stream, printed: string, sent: () => void): void {
    this.#waitingChars += printed.length
    this.#say(
      printed,
      text => ({ type: 'output', number: author, stream, text }),
      () => {
        this.#waitingChars -= printed.length
        sent()
      },
    )
  }

  log(name: string, { message, stream }: Said, sent: () => void): void {
    this.#say(message, part => ({ type: 'log', name, message: part, ...(stream && { stream }) }), sent)
  }

  /** @param sent called when its last part has been handed to the channel */
  #say(text: string, messageOf: (part: string) => WorkerMessage, sent: () => void): void {
    const parts = partsOf(this.#shown(text))
    for (const [i, part] of parts.entries())
      this.#send(messageOf(part), i === parts.length - 1 ? sent : () => {})
  }
}
