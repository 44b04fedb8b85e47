import assert from 'node:assert/strict'
import { writeSync } from 'node:fs'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { logLines } from '#src/runtime/worker/log-lines.js'
import { OutputPipe } from '#src/runtime/worker/output-pipe.js'

const PIECE = `${'0'.repeat(1023)}\n`.repeat(64)
const MiB = 1024 * 1024

describe('the output of a program that has ended', () => {
  it('is read no further than 1 MiB, however fast another process goes on printing', async () => {
    let printed = 0
    const stream = new Readable({
      read() {
        printed += PIECE.length
        this.push(printed < 100 * MiB ? PIECE : null) // at once: no timer fires between two pieces
      },
    })
    await logLines(stream, async () => {})()
    assert.ok(printed <= MiB + 2 * PIECE.length, `${printed} bytes`) // some were ahead of the reader
  })

  it('is read for 100 ms and then closed if something always comes', async () => {
    const endless = new Readable({
      read() {
        setImmediate(() => this.push('.\n'))
      },
    })
    const finish = logLines(endless, async () => {})
    const since = performance.now()
    await finish()
    assert.ok(performance.now() - since >= 99, 'the endless output was read for 100 ms')
    assert.equal(endless.destroyed, true)
  })

  it('is whole, however long the log takes', async () => {
    const lines = Array.from({ length: 8 }, (_, i) => `line ${i}`)
    const stream = Readable.from(lines.map(line => Buffer.from(`${line}\n`)))
    const logged: string[] = []
    const finish = logLines(stream, async line => {
      await sleep(30)
      logged.push(line)
    })
    await turn()
    await finish()
    assert.deepEqual(logged, lines)
  })

  it('is read even if this process had no processor meanwhile', async () => {
    const pipe = OutputPipe.open()
    assert.ok(pipe)
    const logged: string[] = []
    const finish = logLines(pipe.reader, async line => {
      logged.push(line)
    })
    await turn() // it reads
    writeSync(pipe.writer, 'last\n')
    const finished = finish()
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200) // longer than it is listened to
    await finished
    pipe.spawned(undefined)
    assert.deepEqual(logged, ['last'])
  })
})
