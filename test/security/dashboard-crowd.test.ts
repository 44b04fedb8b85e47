import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { urlTextOf } from '#src/doors/dashboard/spools.js'
import { Browser, dropLater, type Place, runs, send, startDashboard } from '../helpers/dashboard.js'
import { leftIn } from '../helpers/files.js'
import { isLong } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { cpuMsOf, openFiles, peakMemoryMb } from '../helpers/usage.js'

const HANDLER = 'export default () => -2'
/** How many slow and greedy clients are connected at a time. */
const CROWD = isLong ? 2000 : 1000
const TASKS_BESIDE = 500
/** Requests that never end. */
const SLOW = ['', 'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n']
/** How many connections have to be made: a client comes back when it is disconnected. */
const ARRIVALS = isLong ? 100_000 : 2 * CROWD

/** Opens connections that send these bytes, slowly or never to the end, and come back when they are closed. */
class Crowd {
  #isOver = false
  readonly #sockets = new Set<ReturnType<typeof connect>>()
  came = 0

  constructor(place: Place, texts: readonly string[], count: number) {
    for (let i = 0; i < count; i++) this.#come(place, texts[i % texts.length] ?? '')
  }

  leave(): void {
    this.#isOver = true
    for (const socket of this.#sockets) socket.destroy()
  }

  #come(place: Place, text: string): void {
    if (this.#isOver) return
    this.came++
    const socket = connect(
      'port' in place ? { port: place.port, host: '127.0.0.1' } : { path: place.socketPath },
    )
    this.#sockets.add(socket)
    socket.on('error', () => {})
    socket.write(text)
    const drip = setInterval(() => socket.write('a'), 500)
    socket.resume()
    socket.once('close', () => {
      clearInterval(drip)
      this.#sockets.delete(socket)
      setTimeout(() => this.#come(place, text), 20).unref()
    })
  }
}

describe('clients of the dashboard', () => {
  it('that are slow or greedy do not slow tasks down, change nothing, and let a viewer log in', async test => {
    const { daemon, place, spool, pid, tokenOf } = await startDashboard({ handler: HANDLER })
    const process = pid() ?? assert.fail()
    const daemonCpuMs = () =>
      [daemon.pid, ...daemon.workers()]
        .filter(each => each !== process)
        .reduce((sum, each) => sum + cpuMsOf(each), 0)
    const costOf = async (tasks: number) => {
      const before = daemonCpuMs()
      await runs(spool, tasks)
      return daemonCpuMs() - before
    }
    const kept = dropLater(spool)
    const removal = (path: string) => {
      const form = 'count=1&typed=1&csrf=x'
      return `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ${form.length}\r\n\r\n${form}`
    }
    await runs(spool, 100) // so that code is loaded and compiled before it is measured
    const alone = await costOf(TASKS_BESIDE)
    const crowd = new Crowd(
      place,
      [
        ...SLOW,
        ...SLOW,
        `GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ${'x'.repeat(20_000)}`,
        'POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100000000\r\n\r\ntoken=',
        'POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n',
        'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.repeat(1500),
        removal('/spools/spool/bulk/remove'),
        removal(`/spools/spool/tasks/${urlTextOf(kept)}/remove`),
      ],
      CROWD,
    )
    let mostFiles = 0
    await until('enough clients have connected', () => {
      mostFiles = Math.max(mostFiles, openFiles(process))
      return crowd.came > ARRIVALS
    })
    const beside = await costOf(TASKS_BESIDE)
    test.diagnostic(
      `${TASKS_BESIDE} tasks beside ${CROWD} clients: ${beside} ms of processor; alone: ${alone} ms`,
    )
    assert.ok(beside < 2 * alone + 200, `${beside} ms of processor, and ${alone} ms alone`)
    assert.deepEqual(leftIn(spool), [kept])
    assert.equal(existsSync(join(spool, '.spoold/audit')), false)
    const browser = new Browser(place)
    await until('a viewer can log in', async () => {
      const reply = await browser.logIn(tokenOf('viewer')).catch(() => undefined)
      return reply?.status === 303
    })
    assert.ok(mostFiles < 128 + 60, `${mostFiles} descriptors`)
    test.diagnostic(
      `${crowd.came} came; the dashboard has had ${peakMemoryMb(process)} MB, and ${mostFiles} descriptors`,
    )
    assert.ok(peakMemoryMb(process) <= 80, `${peakMemoryMb(process)} MB`)
    crowd.leave()
    assert.equal(pid(), process, 'the dashboard was not restarted')
    assert.doesNotMatch(daemon.output, /dashboard died/)
  })

  it('that send too much are refused, and a viewer can still log in', async () => {
    const { place, tokenOf } = await startDashboard({ handler: HANDLER })
    const large = await send(place, '/login', { form: { token: 'x'.repeat(5 * 1024 * 1024) } }).catch(
      () => undefined,
    )
    assert.ok(large === undefined || large.status === 413, String(large?.status))
    const header = await send(place, '/', { headers: { x: 'x'.repeat(10_000) } }).catch(() => undefined)
    assert.ok(header === undefined || header.status >= 400)
    assert.equal((await new Browser(place).logIn(tokenOf('viewer'))).status, 303)
  })
})
