import { connect, type NetConnectOpts, type Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { TestProcess } from './process.js'

const ROUND_MS = 500

/** What a client of the crowd sends when it connects (`first`), and then in every round (`drip`). No client reads. */
interface Kind {
  readonly at: 'stats' | 'metrics' | 'control' | 'view'
  readonly first: string
  readonly drip?: string
  /** True if the client leaves at once, and comes again. */
  readonly leaves?: true
  /** True if the client sends well-formed requests, one by one, so that it may stay. */
  readonly isServed?: true
}

const GET = 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n'
const asked = (verb: string) => `${JSON.stringify({ v: 1, id: 1, verb })}\n`

const KINDS: readonly Kind[] = [
  { at: 'metrics', first: '' },
  { at: 'metrics', first: 'GET /metrics HTTP/1.1\r\nHo', drip: 'x' },
  { at: 'metrics', first: GET.repeat(50), drip: GET },
  { at: 'metrics', first: `GET / HTTP/1.1\r\nX: ${'x'.repeat(60_000)}`, drip: 'x' },
  { at: 'metrics', first: '\0\xff\r\n\r\nPOST', drip: '\r\n' },
  { at: 'metrics', first: GET.replace('localhost', 'rebound.example'), drip: GET },
  { at: 'metrics', first: '', leaves: true },
  { at: 'stats', first: '' },
  { at: 'stats', first: 'x'.repeat(100_000), drip: 'x' },
  { at: 'stats', first: '', leaves: true },
  { at: 'control', first: '{"v":1,"id":1,', drip: ' ' },
  { at: 'control', first: asked('snapshot').repeat(30), drip: asked('snapshot'), isServed: true },
  { at: 'control', first: asked('nothing').repeat(1500), drip: asked('nothing'), isServed: true },
  { at: 'control', first: `{"x":"${'x'.repeat(100_000)}`, drip: 'x' },
  { at: 'control', first: 'GET / HTTP/1.1\r\n\r\n', drip: '\n' },
  { at: 'control', first: '', leaves: true },
  { at: 'view', first: ['stop', 'reload', 'quiet'].map(asked).join(''), drip: asked('stop'), isServed: true },
]

export type Places = Readonly<Record<Kind['at'], NetConnectOpts>>

interface CrowdSetup {
  readonly places: Places
  readonly count: number
  /** True if clients that are sent away come again. False if only clients come whose connections a deadline should end. */
  readonly returns: boolean
}

/** Hostile clients of a daemon's control sockets, stats server and metrics, in a process of their own. */
export class Crowd extends TestProcess {
  constructor(setup: CrowdSetup) {
    super(process.execPath, [fileURLToPath(import.meta.url), JSON.stringify(setup)])
  }

  /** How many rounds there were, in each of which all clients have had their turn. */
  get rounds(): number {
    return this.#last[0] ?? 0
  }

  /** How many connections there were so far to the master, which has the control sockets. */
  get cameToMaster(): number {
    return this.#last[1] ?? 0
  }

  get #last(): number[] {
    return (this.output.split('\n').at(-2) ?? '').split(' ').map(Number)
  }

  async leave(): Promise<void> {
    this.child.kill('SIGKILL')
    await this.exited
  }
}

function beCrowd({ places, count, returns }: CrowdSetup): void {
  const kinds = KINDS.filter(({ leaves, isServed }) => returns || (leaves ?? isServed) === undefined)
  const sockets: Array<Socket | undefined> = Array(count).fill(undefined)
  let [rounds, cameToMaster] = [0, 0]
  const come = ({ at, first, leaves }: Kind): Socket => {
    const socket = connect(places[at])
    socket.on('error', () => socket.destroy())
    socket.on('end', () => socket.destroy())
    socket.once('connect', () => {
      if (at === 'control' || at === 'view') cameToMaster++
      if (leaves) socket.destroy()
      else socket.pause()
    })
    socket.write(first, 'latin1')
    return socket
  }
  const round = () => {
    rounds++
    for (const [i, socket] of sockets.entries()) {
      const kind = kinds[i % kinds.length]
      if (kind === undefined) continue
      if (socket === undefined || (returns && socket.destroyed)) sockets[i] = come(kind)
      else if (kind.drip !== undefined && !socket.destroyed && socket.writableLength < 100_000)
        socket.write(kind.drip)
    }
    process.stdout.write(`${rounds} ${cameToMaster}\n`)
  }
  setInterval(round, ROUND_MS)
  round()
}

if (process.argv[1] === fileURLToPath(import.meta.url)) beCrowd(JSON.parse(process.argv[2] ?? ''))
