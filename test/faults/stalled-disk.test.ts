import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmdirSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { drop, packet, taskName } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

/** So often a daemon looks whether its control sockets are there, and more. */
const LOOKS_MS = 5000

/** A directory behind a server of files, which can be stopped. */
async function servedDirectory(): Promise<{ path: string; server: TestProcess }> {
  const path = mkdtempSync(join(tmpdir(), 'spoold-served-'))
  const { dev } = statSync(path)
  const server = new TestProcess('bindfs', ['-f', '--no-allow-other', workspace(), path])
  after(async () => {
    server.child.kill('SIGKILL')
    await server.exited
    execFileSync('umount', ['-l', path])
    rmdirSync(path)
  })
  await until('it is mounted', () => statSync(path).dev !== dev)
  return { path, server }
}

/** @returns its name */
function put(spool: string, vars: Readonly<Record<string, string>> = {}): string {
  const name = taskName()
  drop(spool, name, packet({ name, ...vars }))
  return name
}

describe('a disk that stalls', { skip: skipUnless('root', 'fuse') }, () => {
  it('stalls no other spool, and loses nothing', async () => {
    const { path, server } = await servedDirectory()
    const [spool, stalling] = [spoolDirectory(), join(path, 'spool')]
    mkdirSync(stalling)
    const daemon = await startDaemon({ spool, ini: { spooler: [spool, stalling], 'spooler-frequency': 1 } })
    const runs = async (name: string) => await until(`${name} ran`, () => daemon.journal().includes(name))
    await runs(put(stalling))
    const waiting = put(stalling, { at: String(Math.ceil(Date.now() / 1000) + 2) })

    server.child.kill('SIGSTOP')
    const since = performance.now()
    while (performance.now() - since < 1.5 * LOOKS_MS) {
      const droppedAt = performance.now()
      await runs(put(spool))
      assert.ok(performance.now() - droppedAt < 2000, 'it waited for the disk')
    }
    server.child.kill('SIGCONT')
    await runs(waiting)
  })
})
