import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeSync } from 'node:fs'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { OutputPipe, readOutput } from '#src/runtime/worker/output-pipe.js'
import { until } from '../helpers/until.js'

const MiB = 1024 * 1024

function openPipe(t: TestContext): OutputPipe {
  const pipe = OutputPipe.open()
  assert.ok(pipe)
  t.after(() => pipe.spawned(undefined))
  return pipe
}

describe('the output of a program that has ended', () => {
  it('is read no further than a few MiB, however fast another process goes on printing', async t => {
    const pipe = openPipe(t)
    const child = spawn('yes', ['0'.repeat(1000)], { stdio: ['ignore', pipe.writer, 'ignore'] })
    t.after(() => child.kill('SIGKILL'))
    let printed = 0
    const finish = readOutput(pipe.reader, text => {
      printed += text.length // and there is no room for more
    })
    await until('it has printed', () => printed > 0)
    finish()
    assert.ok(printed <= 5 * MiB, `${printed} bytes`)
    pipe.reader.destroy()
    child.kill('SIGKILL')
    await once(child, 'exit')
  })

  it('is whole, however long the log takes', async t => {
    const pipe = openPipe(t)
    const written = Array.from({ length: 8 }, (_, i) => `line ${i}\n`)
    let read = ''
    const finish = readOutput(pipe.reader, (text, taken) => {
      read += text
      void sleep(30).then(taken)
    })
    for (const line of written) {
      writeSync(pipe.writer, line)
      await turn()
    }
    writeSync(pipe.writer, Buffer.from('€').subarray(0, 2))
    finish()
    assert.equal(read, `${written.join('')}�`)
  })

  it('is read even if this process had no processor meanwhile', async t => {
    const pipe = openPipe(t)
    let read = ''
    const finish = readOutput(pipe.reader, (text, taken) => {
      read += text
      taken()
    })
    await turn() // it reads
    writeSync(pipe.writer, 'last\n')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
    finish()
    assert.equal(read, 'last\n')
  })
})
