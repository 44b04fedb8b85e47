import assert from 'node:assert/strict'
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { drop, packet } from '../helpers/files.js'
import { childrenOf, isAlive } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

const LATER = 4_000_000_000
const REDRAWS = 1000
/** What pipes and the terminal hold while nobody reads, and two frames. A thousand frames are ten times as much. */
const MOST_BYTES = 1_000_000

/** Runs `spoold top` in a large terminal, whose screen comes through a pipe. */
class Screen {
  readonly pid: Promise<number>
  readonly #script: ChildProcessByStdio<Writable, Readable, null>
  bytes = 0
  shown = ''

  constructor(spool: string, close: (end: () => void) => void) {
    const command = `stty rows 60 cols 150; exec ${process.execPath} ${BIN} top ${spool}`
    this.#script = spawn('script', ['-qec', command, '/dev/null'], {
      stdio: ['pipe', 'pipe', 'ignore'],
      env: { ...process.env, TERM: 'xterm' },
    })
    close(() => this.#script.kill('SIGKILL'))
    this.#script.stdout.on('data', (chunk: Buffer) => {
      this.bytes += chunk.length
      this.shown = (this.shown + chunk.toString('latin1')).slice(-100_000)
    })
    this.pid = until('top runs', () => {
      const [child] = childrenOf(this.#script.pid ?? 0)
      return child
    })
  }

  type(key: string): void {
    this.#script.stdin.write(key)
  }

  stopReading(): void {
    this.#script.stdout.pause()
  }

  goOn(): void {
    this.bytes = 0
    this.shown = ''
    this.#script.stdout.resume()
  }
}

describe('spoold top, while nobody reads the screen', { skip: skipUnless('script') }, () => {
  async function stuck(close: (end: () => void) => void) {
    const spool = spoolDirectory()
    for (let i = 0; i < 60; i++) drop(spool, `later-${i}-${'x'.repeat(90)}`, packet({ n: String(i) }), LATER)
    const screen = new Screen(spool, close)
    await until('top has drawn the screen', () => screen.shown.includes('Overview'))
    screen.type('3')
    await until('top shows tasks', () => screen.shown.includes('later-1-'))
    screen.stopReading()
    const pid = await screen.pid
    for (let i = 0; i < REDRAWS; i++) {
      process.kill(pid, 'SIGCONT') // top draws the whole screen again
      await sleep(2)
    }
    return { spool, screen, pid }
  }

  it('keeps one frame, and shows the present state once somebody reads again', async t => {
    const { spool, screen } = await stuck(end => t.after(end))
    drop(spool, 'fresh', packet({}), LATER - 1)
    screen.goOn()
    await until('top shows the new task', () => screen.shown.includes('fresh'))
    assert.ok(screen.bytes < MOST_BYTES, `${screen.bytes} bytes were kept`)
    screen.type('q')
    await until('top has ended', () => screen.shown.includes('\x1b[?1049l'))
  })

  it('ends at SIGTERM', async t => {
    const { pid } = await stuck(end => t.after(end))
    process.kill(pid, 'SIGTERM')
    await until('top has ended', () => !isAlive(pid), 10_000)
  })
})
