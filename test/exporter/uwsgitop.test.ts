import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn } from '../helpers/files.js'
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

/** The types of a field such as `workers[].cores[].id` in all places where it can be. */
function typesOf(document: unknown, path: string): Set<string> {
  let values = [document]
  for (const part of path.split('.')) {
    const name = part.replace('[]', '')
    values = values.map(value => (value as Record<string, unknown>)[name])
    if (part.endsWith('[]')) values = values.flat()
  }
  return new Set(values.map(value => (Array.isArray(value) ? 'list' : typeof value)))
}

/** All that comes back for these bytes. */
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

async function served(ini: Readonly<Record<string, string | boolean>>) {
  const spool = spoolDirectory()
  const daemon = await startDaemon({ spool, ini: { stats: '127.0.0.1:0', 'spooler-processes': 2, ...ini } })
  drop(spool)
  await until('a task has run', () => leftIn(spool).length === 0)
  const port = await until(
    'it listens',
    () => /Stats server enabled on \S+:([0-9]+)/.exec(daemon.output)?.[1],
  )
  return Number(port)
}

function assertShows(document: Record<string, unknown>): void {
  const theirs = JSON.parse(recording.uwsgi.got)
  for (const field of recording.reads)
    assert.deepEqual(typesOf(document, field), typesOf(theirs, field), `${field}, beside a real uWSGI's`)
}

describe('uwsgitop', () => {
  it('was recorded with all that it reads', () => {
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

  it('gets the same for its HTTP request, and the end of the connection', async () => {
    const port = await served({ 'stats-http': true })
    const [head = '', body = ''] = (await exchange(port, recording.http.sent)).split('\r\n\r\n')
    assert.match(head, /^HTTP\/1\.1 200 OK\r\n/)
    assert.match(head, new RegExp(`^content-length: ${Buffer.byteLength(body)}$`, 'im'))
    assertShows(JSON.parse(body))
  })
})
