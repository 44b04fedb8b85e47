import { closeSync, constants, openSync, readSync } from 'node:fs'
import { StringDecoder } from 'node:string_decoder'
import { errnoOf } from '../../base/errors.js'
import type { Page } from './page.js'

/** How a mark begins; behind it the number of a task, u32. */
const MARK_START = 0
const NUMBER_BYTES = 4
/** What is printed before the first task, or between two, or by the function of a signal. */
const NOBODY = 0xffff_ffff
const CHUNK_BYTES = 256 * 1024
/** Who prints without end must not keep the worker from its other work. */
const MAX_CHUNKS = 8

/**
 * What a host and its children write to standard output and standard error: one pipe for all, so that the order is that in
 * which it was written, whatever wrote it.
 *
 * The worker learns from marks in the pipe whose output it reads. A mark ends the output of a task; a host writes one
 * only where there is something to be marked, because each costs a system call:
 * - At the end of a task it asks the kernel whether the pipe is empty, and then looks at the flag on the page. It writes a
 *   mark, and says so with the task's result, unless the pipe is empty and the flag is not set.
 * - The worker sets the flag before it reads, and clears it when it has nothing that is not marked. So what it took out of
 *   the pipe while a task ran is marked too.
 */
export class HostOutput {
  readonly #fd: number
  readonly #page: Page
  readonly #mark: Buffer
  readonly #isBehind: () => boolean
  readonly #decoder = new StringDecoder('utf8')
  readonly #chunk = Buffer.allocUnsafe(CHUNK_BYTES)
  /** Read, and not marked. */
  #open = Buffer.alloc(0)
  readonly #marked: { number: number; text: string }[] = []
  #isFlagSet = false

  /**
   * @param path of the pipe's end that is read
   * @param token known to the host alone, so that nobody prints a mark
   * @param isBehind the log takes no more for now: the host waits, in its own writes
   */
  constructor(path: string, page: Page, token: Buffer, isBehind: () => boolean) {
    this.#fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    this.#page = page
    this.#mark = Buffer.concat([Buffer.of(MARK_START), token])
    this.#isBehind = isBehind
  }

  /** Reads what there is. @returns whether there was anything. @param isLast behind or not, the log has it now or never */
  poll(isLast = false): boolean {
    if (!isLast && this.#isBehind()) return false
    this.#setFlag(true)
    let chunks = 0
    while (chunks < MAX_CHUNKS) {
      const count = this.#read()
      if (count === 0) break
      this.#take(this.#chunk.subarray(0, count))
      chunks++
    }
    if (this.#open.length === 0) this.#setFlag(false)
    return chunks > 0
  }

  /** Was the end read of what the task of this number printed? */
  hasEndOf(number: number): boolean {
    return this.#marked.some(each => each.number === number)
  }

  /** What it printed; in front of it stands what nobody printed who is known. */
  takeEndOf(number: number): string {
    const place = this.#marked.findIndex(each => each.number === number)
    const texts = this.#marked.splice(0, place + 1).map(({ text }) => text)
    return texts.join('')
  }

  get hasOpen(): boolean {
    return this.#open.length > 0 || this.#marked[0]?.number === NOBODY
  }

  /** What is not marked so far. To be asked when it is known whose it is. */
  takeOpen(): string {
    const nobodys = this.#marked.splice(0).map(({ text }) => text)
    const end = this.#open.length - this.#cutMarkBytes()
    const text = this.#decoder.write(this.#open.subarray(0, end))
    this.#open = this.#open.subarray(end)
    return nobodys.join('') + text
  }

  close(): void {
    closeSync(this.#fd)
  }

  /** How much of a mark was read of which the rest is still in the pipe. */
  #cutMarkBytes(): number {
    const from = Math.max(0, this.#open.length - this.#mark.length - NUMBER_BYTES + 1)
    for (
      let at = this.#open.indexOf(MARK_START, from);
      at >= 0;
      at = this.#open.indexOf(MARK_START, at + 1)
    ) {
      const tail = this.#open.subarray(at, at + this.#mark.length)
      if (tail.equals(this.#mark.subarray(0, tail.length))) return this.#open.length - at
    }
    return 0
  }

  #setFlag(isSet: boolean): void {
    if (this.#isFlagSet === isSet) return
    this.#isFlagSet = isSet
    this.#page.setOutputFlag(isSet)
  }

  #read(): number {
    try {
      return readSync(this.#fd, this.#chunk)
    } catch (error) {
      if (errnoOf(error) === 'EAGAIN') return 0
      throw error
    }
  }

  #take(chunk: Buffer): void {
    let bytes = Buffer.concat([this.#open, chunk])
    for (let at = bytes.indexOf(this.#mark); at >= 0; at = bytes.indexOf(this.#mark)) {
      const end = at + this.#mark.length + NUMBER_BYTES
      if (end > bytes.length) break // a chunk ends in it
      const number = bytes.readUInt32LE(end - NUMBER_BYTES)
      this.#marked.push({ number, text: this.#decoder.write(bytes.subarray(0, at)) })
      bytes = bytes.subarray(end)
    }
    this.#open = bytes
  }
}
