import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const PASSED_OVER = ['SIGUSR2', 'SIGALRM', 'SIGVTALRM', 'SIGPROF', 'SIGIO', 'SIGPWR'] as const

describe('a signal that a daemon obeys or passes over ends it neither', () => {
  it('from the first line of its code on; a reload that was asked for comes later', async () => {
    const daemon = await startDaemon({ spool: spoolDirectory(), isUnready: true })
    await until('it catches SIGHUP', () => isCaught(daemon.pid, 1))
    assert.equal(daemon.output, '')
    for (const signal of [...PASSED_OVER, 'SIGUSR1', 'SIGHUP'] as const) daemon.child.kill(signal)
    await daemon.waitFor(/is running \(pid/)
    await daemon.waitFor(/reload/)
    assert.ok(daemon.isRunning)
  })

  it('nor while it runs', async () => {
    const daemon = await startDaemon({ spool: spoolDirectory() })
    for (const signal of PASSED_OVER) daemon.child.kill(signal)
    daemon.child.kill('SIGHUP')
    await daemon.waitFor(/reload/)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })
})

/** Has the process a function for the signal? */
function isCaught(pid: number, signal: number): boolean {
  const [, mask = '0'] = /^SigCgt:\s*([0-9a-f]+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return ((BigInt(`0x${mask}`) >> BigInt(signal - 1)) & 1n) === 1n
}
