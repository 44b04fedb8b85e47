import { connect, type NetConnectOpts, type Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import type { TestProcess } from './process.js'
import { until } from './until.js'

export type Pair = readonly [key: string | Buffer, value: string | Buffer]

/** Returns a packet as any client sends it. `size` overrides the size in its header. */
export function wire(
  pairs: readonly Pair[] | Buffer,
  { modifier1 = 17, modifier2 = 0, size }: { modifier1?: number; modifier2?: number; size?: number } = {},
): Buffer {
  const block = Buffer.isBuffer(pairs) ? pairs : Buffer.concat(pairs.flat().map(sized))
  const header = Buffer.of(modifier1, 0, 0, modifier2)
  header.writeUInt16LE(size ?? block.length, 1)
  return Buffer.concat([header, block])
}

function sized(bytes: string | Buffer): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16LE(Buffer.byteLength(bytes))
  return Buffer.concat([length, Buffer.from(bytes)])
}

export const STORED = 'ff000001'
export const REFUSED = 'ff000000'
export const PONG = '64000001'

/** Returns the TCP port that the kernel assigned to a daemon, spoold or uWSGI. */
export async function portOf(daemon: TestProcess): Promise<number> {
  const line = /bound to TCP6? address \S*:(\d+) \(port auto-assigned\)/
  await daemon.waitFor(line)
  return Number(line.exec(daemon.output)?.[1])
}

/** The client side of a connection, byte by byte. */
export class Client {
  readonly socket: Socket
  #received = Buffer.alloc(0)
  #end: 'open' | 'eof' | 'reset' = 'open'

  private constructor(socket: Socket) {
    this.socket = socket
    socket.on('data', chunk => {
      this.#received = Buffer.concat([this.#received, chunk])
    })
    socket.on('end', () => {
      if (this.#end === 'open') this.#end = 'eof'
    })
    socket.on('error', () => {
      this.#end = 'reset'
    })
  }

  static async to(where: number | string | NetConnectOpts): Promise<Client> {
    const target =
      typeof where === 'number'
        ? { port: where, host: '127.0.0.1' }
        : typeof where === 'string'
          ? { path: where }
          : where
    const socket = connect({ allowHalfOpen: true, noDelay: true, ...target } as NetConnectOpts)
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve)
      socket.once('error', reject)
    })
    return new Client(socket)
  }

  /** Everything received so far, as hex. */
  get received(): string {
    return this.#received.toString('hex')
  }

  get end(): 'open' | 'eof' | 'reset' {
    return this.#end
  }

  send(bytes: Buffer | string): this {
    this.socket.write(bytes)
    return this
  }

  /** Closes the sending side. */
  half(): this {
    this.socket.end()
    return this
  }

  async got(hex: string, timeoutMs?: number): Promise<void> {
    await until(`${hex} came (${this.received} so far)`, () => this.received.length >= hex.length, timeoutMs)
    if (this.received !== hex) throw new Error(`expected ${hex}, got ${this.received}`)
  }

  /** Waits until the other side closes the connection, and returns how it did. */
  async ended(timeoutMs?: number): Promise<'eof' | 'reset'> {
    const end = await until('it is ended', () => (this.#end === 'open' ? undefined : this.#end), timeoutMs)
    this.socket.destroy()
    return end
  }

  close(): void {
    this.socket.destroy()
  }
}

/** Sends all bytes and waits until the other side closes. @returns the answer as hex */
export async function exchange(
  where: number | string,
  bytes: Buffer,
  chunkBytes = bytes.length,
): Promise<string> {
  const client = await Client.to(where)
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    client.send(bytes.subarray(at, at + chunkBytes))
    if (chunkBytes < bytes.length) await setTimeout(1)
  }
  await client.ended()
  return client.received
}
