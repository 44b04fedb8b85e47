import { closeSync, constants, openSync, readSync } from 'node:fs'
import { StringDecoder } from 'node:string_decoder'
import { errnoOf } from '../../../base/errors.js'
import type { Page } from '../../ipc/host-page.js'

/** The first byte of a mark. A mark ends with the number of a task, u32. */
const MARK_START = 0
const NUMBER_BYTES = 4
/** The number for output outside tasks: before the first, between two, or from the function of a signal. */
const NO_TASK = 0xffff_ffff
const CHUNK_BYTES = 256 * 1024
/** The most chunks per read, so that a host that prints without end does not keep the worker from its other work. */
const MAX_CHUNKS = 8

/**
 * The text that a host and its child processes write to standard output and standard error. All of it goes through one pipe, so
 * that the text is in the order of the writes.
 *
 * Marks in the pipe tell the worker which task printed what. A mark ends the output of a task. A mark costs a system
 * call, so a host writes one only if there is output to mark:
 * - At the end of a task the host asks the kernel whether the pipe is empty, and then reads the flag on the page. Unless the
 *   pipe is empty and the flag is clear, the host writes a mark, and says so in the task's result.
 * - The worker sets the flag before it reads, and clears it when it has no unmarked output. So output that the worker took out of
 *   the pipe while a task ran gets a mark too.
 */
export class HostOutput {
  readonly #fd: number
  readonly #page: Page
  readonly #mark: Buffer
  readonly #isBehind: () => boolean
  readonly #decoder = new StringDecoder('utf8')
  readonly #chunk = Buffer.allocUnsafe(CHUNK_BYTES)
  /** Output that has been read, and for which no mark has come yet. */
  #open = Buffer.alloc(0)
  readonly #marked: { number: number; text: string }[] = []
  #isFlagSet = false

  /**
   * @param path the path of the reading end of the pipe
   * @param token a secret of worker and host, so that a handler cannot print a mark
   * @param isBehind true while the log is full: the pipe is not read then, so that the host blocks in its writes
   */
  constructor(path: string, page: Page, token: Buffer, isBehind: () => boolean) {
    this.#fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    this.#page = page
    this.#mark = Buffer.concat([Buffer.of(MARK_START), token])
    this.#isBehind = isBehind
  }

  /**
   * Reads the output that is available.
   *
   * @param isLast true: read even if the log is full, because there is no later chance
   * @returns true if there was any output
   */
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

  /** True if all output of the task with this number has been read. */
  hasEndOf(number: number): boolean {
    return this.#marked.some(each => each.number === number)
  }

  /** Returns the output of the task with this number, preceded by earlier output that belongs to no known task. */
  takeEndOf(number: number): string {
    const place = this.#marked.findIndex(each => each.number === number)
    return this.#takeMarked(place + 1)
  }

  /**
   * True if there is output of no task, or without a mark, before all marks of tasks. Output after such a mark is of a later
   * task.
   */
  get hasOpen(): boolean {
    const [first] = this.#marked
    return first === undefined ? this.#open.length > 0 : first.number === NO_TASK
  }

  /** Returns the output that `hasOpen` is about. Call it when it is known which task printed it. */
  takeOpen(): string {
    const place = this.#marked.findIndex(({ number }) => number !== NO_TASK)
    return place === -1 ? this.takeAll() : this.#takeMarked(place)
  }

  /** Returns all output that is left, also that of a task whose result will never come. */
  takeAll(): string {
    const marked = this.#takeMarked(this.#marked.length)
    const end = this.#open.length - this.#cutMarkBytes()
    const text = this.#decoder.write(this.#open.subarray(0, end))
    this.#open = this.#open.subarray(end)
    return marked + text
  }

  #takeMarked(count: number): string {
    const taken = this.#marked.splice(0, count)
    return taken.map(({ text }) => text).join('')
  }

  close(): void {
    closeSync(this.#fd)
  }

  /** Returns how many bytes at the end are the start of a mark whose rest is still in the pipe. */
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
      if (end > bytes.length) break // a chunk ends within the mark
      const number = bytes.readUInt32LE(end - NUMBER_BYTES)
      this.#marked.push({ number, text: this.#decoder.write(bytes.subarray(0, at)) })
      bytes = bytes.subarray(end)
    }
    this.#open = bytes
  }
}
