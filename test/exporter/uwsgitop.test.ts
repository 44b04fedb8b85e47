import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { type DaemonSetup, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { virtualenv } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { FIXTURES, spoolDirectory } from '../helpers/workspace.js'

/** What one uwsgitop said and heard. `sent` and `got` are the bytes of one exchange, as text. */
interface Exchange {
  readonly sent: string
  readonly got: string
}

/**
 * An unmodified uwsgitop 0.12, recorded in its three views: in front of a uWSGI 2.0.21 and of a spoold, over TCP; and of a spoold over
 * HTTP. `reads` are the fields of the answers that its code read or looked for. Paths in the answers are replaced.
 */
interface Recording {
  readonly uwsgitop: string
  readonly reads: readonly string[]
  readonly uwsgi: Exchange
  readonly spoold: Exchange
  readonly http: Pick<Exchange, 'sent'>
}

const recording: Recording = JSON.parse(readFileSync(join(FIXTURES, 'stats', 'uwsgitop-0.12.json'), 'utf8'))

/** Returns the types that a field such as `workers[].cores[].id` has, wherever it is. */
function typesOf(document: unknown, path: string): Set<string> {
  let values = [document]
  for (const part of path.split('.')) {
    const name = part.replace('[]', '')
    values = values.map(value => (value as Record<string, unknown>)[name])
    if (part.endsWith('[]')) values = values.flat()
  }
  return new Set(values.map(value => (Array.isArray(value) ? 'list' : typeof value)))
}

/** Returns all that the server answers to these bytes. */
function exchange(port: number, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
    let text = ''
    socket.setEncoding('utf8')
    socket.on('data', data => (text += data))
    socket.once('error', reject)
    socket.once('close', () => resolve(text))
  })
}

async function started({ ini, ...setup }: Omit<DaemonSetup, 'spool'> = {}) {
  const spool = spoolDirectory()
  const daemon = await startDaemon({
    spool,
    ...setup,
    ini: { stats: '127.0.0.1:0', 'spooler-processes': 2, ...ini },
  })
  const port = await until(
    'the stats server listens',
    () => /Stats server enabled on \S+:([0-9]+)/.exec(daemon.output)?.[1],
  )
  return { spool, daemon, port: Number(port) }
}

async function served(ini: Readonly<Record<string, string | boolean>>) {
  const { spool, port } = await started({ ini })
  drop(spool)
  await until('a task has run', () => leftIn(spool).length === 0)
  return port
}

const ESCAPE = '\x1b'
const CLEARED = `${ESCAPE}[H${ESCAPE}[J`
const TO_LINE = new RegExp(`\\r|${ESCAPE}\\[[0-9;]*[dH]`, 'g')
const TO_COLUMN = new RegExp(`${ESCAPE}\\[[0-9]*[GC]`, 'g')

/** uwsgitop in a terminal of its own, which is killed when the test has ended. */
class Terminal {
  readonly #script
  #bytes = ''
  #code: number | null | undefined

  constructor(address: string) {
    const program = join(virtualenv('uwsgi'), 'bin/uwsgitop')
    this.#script = spawn(
      'script',
      ['-qec', `stty rows 24 cols 200; exec ${program} ${address}`, '/dev/null'],
      {
        stdio: ['pipe', 'pipe', 'ignore'],
        env: { ...process.env, TERM: 'linux' },
      },
    )
    this.#script.stdout.on('data', data => (this.#bytes += data))
    this.#script.once('close', code => (this.#code = code))
    after(() => this.#script.kill('SIGKILL'))
  }

  type(keys: string): void {
    this.#script.stdin.write(keys)
  }

  /** Waits until uwsgitop has ended. @returns its exit code */
  async code(): Promise<number | null> {
    await until('uwsgitop has ended', () => this.#code !== undefined)
    return this.#code ?? null
  }

  /** The lines of the last frame. Each frame is drawn on an empty screen; a move within a line begins a column. */
  get lines(): string[] {
    const frame = this.#bytes.split(CLEARED).at(-1) ?? ''
    const moved = frame.replaceAll(TO_LINE, '\n').replaceAll(TO_COLUMN, ' ').replaceAll('\x0f', '')
    return stripVTControlCharacters(moved)
      .split('\n')
      .map(line => line.trim())
      .filter(Boolean)
  }

  /** Waits until a line of a frame matches. */
  row(shown: RegExp): Promise<RegExpExecArray> {
    return until(`uwsgitop shows ${shown}`, () => {
      for (const line of this.lines) {
        const found = shown.exec(line)
        if (found !== null) return found
      }
      return undefined
    }).catch(error => {
      throw new Error(`${error}\n${this.lines.join('\n')}`)
    })
  }
}

function assertShows(document: Record<string, unknown>): void {
  const theirs = JSON.parse(recording.uwsgi.got)
  for (const field of recording.reads)
    assert.deepEqual(
      typesOf(document, field),
      typesOf(theirs, field),
      `${field} has other types than in a real uWSGI`,
    )
}

describe('uwsgitop', () => {
  it('was recorded with the fields that it reads', () => {
    assert.ok(recording.reads.length > 25, `${recording.reads.length} fields`)
    for (const field of [
      'listen_queue',
      'workers[].status',
      'workers[].avg_rt',
      'workers[].cores[].in_request',
    ])
      assert.ok(recording.reads.includes(field), field)
    assertShows(JSON.parse(recording.spoold.got))
  })

  it('finds each field with the type that a uWSGI gives it', async () => {
    const port = await served({})
    const document = JSON.parse(await exchange(port, recording.spoold.sent))
    assertShows(document)
    assert.equal(document.workers.length, 2)
  })

  it('gets the same fields for its HTTP request, and then the end of the connection', async () => {
    const port = await served({ 'stats-http': true })
    const [head = '', body = ''] = (await exchange(port, recording.http.sent)).split('\r\n\r\n')
    assert.match(head, /^HTTP\/1\.1 200 OK\r\n/)
    assert.match(head, new RegExp(`^content-length: ${Buffer.byteLength(body)}$`, 'im'))
    assertShows(JSON.parse(body))
  })
})

describe('uwsgitop in a terminal', { skip: skipUnless('venv:uwsgi', 'script') }, () => {
  it('shows the workers, what they do and what they have done, until the key q ends it', async () => {
    const { spool, daemon, port } = await started({
      handler: `import { existsSync } from 'node:fs'
export default async (env, task) => {
  while (!existsSync(env.until)) await new Promise(resolve => setTimeout(resolve, 5))
  return task.SPOOL_OK
}`,
    })
    const terminal = new Terminal(`127.0.0.1:${port}`)
    await terminal.row(/^uwsgi-\S+ - .* - req: 0 - RPS: 0 - lq: 0 - tx: 0$/)
    terminal.type('f') // ten frames a second
    await terminal.row(
      new RegExp(`^node: 127\\.0\\.0\\.1 - cwd: ${daemon.directory} .* masterpid: ${daemon.pid}$`),
    )
    const shown = [
      await terminal.row(/^1 +0\.0 +(\d+) +0 .* idle /),
      await terminal.row(/^2 +0\.0 +(\d+) +0 .* idle /),
    ]
    const pids = shown.map(([, pid]) => pid)
    const spawned = [...daemon.output.matchAll(/spawned the uWSGI spooler .* with pid (\d+)/g)]
    assert.deepEqual(pids.toSorted(), spawned.map(([, pid]) => pid).toSorted())

    const gate = join(daemon.directory, 'gate')
    drop(spool, 'held', packet({ until: gate }))
    const [, busy] = await terminal.row(/^[12] +0\.0 +(\d+) +0 .* busy /)
    assert.ok(pids.includes(busy))
    writeFileSync(gate, '')
    const [, worked] = await terminal.row(/^[12] +100\.0 +(\d+) +1 .* idle /)
    assert.equal(worked, busy)
    await terminal.row(/ - req: 1 - RPS: \d+ - lq: 0 - tx: /)

    terminal.type('aa') // shows below each worker what its cores do
    await terminal.row(/^:0 +100\.0 +- +1 +\d+ +- +- +idle /)
    terminal.type('q')
    assert.equal(await terminal.code(), 0)
  })
})
