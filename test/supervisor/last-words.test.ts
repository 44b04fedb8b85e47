import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import type { MasterMessage } from '#src/runtime/ipc/messages.js'
import { ForkedPort } from '#src/runtime/supervisor/forked-port.js'

/** A worker cannot be opened with this: it says so, and exits. */
const WRONG: MasterMessage = JSON.parse('{"type":"open","options":{}}')
/** Longer than a master waits for what a process has said last. */
const PAUSED_MS = 1200

/** Lets nothing else happen in this process, as a busy machine does. */
function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

function pauseUntilEnd(pid: number): void {
  while (!/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))) pause(10)
}

describe('what a worker says last', () => {
  it('is heard before its exit, even if the master gets no processor meanwhile', async () => {
    const port = new ForkedPort({ logFd: 2, areas: [] })
    const heard: string[] = []
    port.listen({ heard: message => heard.push(message.type), garbled: assert.fail })
    const exit = port.whenExited.then(() => heard.push('exit'))
    // its end is noticed together with that of another process, before its socket is looked at
    const other = spawn('echo', ['said'], { stdio: ['ignore', 'pipe', 'inherit'] })
    pauseUntilEnd(other.pid ?? 0)
    other.stdout.once('data', () => {
      port.send(WRONG)
      pauseUntilEnd(port.pid)
    })
    other.once('exit', () => pause(PAUSED_MS))
    await exit
    assert.deepEqual(heard, ['unloadable', 'exit'])
  })
})
