import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { urlTextOf } from '#src/doors/dashboard/spools.js'
import { readAudit } from '#src/engines/spool/admin/audit.js'
import { AUDITED_CALLS, assertAuditedBefore } from '../helpers/audited.js'
import { Browser, give, startDashboard, type TestDashboard } from '../helpers/dashboard.js'
import { drop, leftIn, packet, taskName } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { smallDisk } from '../helpers/small-disk.js'
import { until } from '../helpers/until.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

const HANDLER = 'export default () => -2'
const LATER = 4_000_000_000

/** Starts a dashboard, drops a task that waits, and logs an admin in. */
async function admin(spool = spoolDirectory()) {
  const dashboard = await startDashboard({ spool, handler: HANDLER })
  const name = taskName()
  give(drop(spool, name, packet({ to: 'joe' }), LATER))
  const browser = new Browser(dashboard.place)
  await browser.logIn(dashboard.tokenOf('admin', true))
  const page = await browser.get(`/spools/${dashboard.id}/bulk/remove`)
  const csrf = /name="csrf" value="([^"]+)"/.exec(page.text)?.[1] ?? assert.fail(page.text)
  const act = (action: string) =>
    browser.post(`/spools/${dashboard.id}/tasks/${urlTextOf(name)}/${action}`, { csrf })
  return { dashboard, spool, name, act }
}

/** Traces the system calls of the dashboard from now on, in order. */
async function traced({ pid }: TestDashboard): Promise<{ readonly strace: ChildProcess; calls(): string[] }> {
  const log = join(workspace(), 'log')
  const strace = spawn('strace', ['-f', '-y', '-e', AUDITED_CALLS, '-o', log, '-p', String(pid())], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const attached = new Promise<void>(resolve => strace.stderr?.once('data', () => resolve()))
  await attached
  return { strace, calls: () => readFileSync(log, 'utf8').split('\n') }
}

describe('the audit of the dashboard', () => {
  for (const action of ['remove', 'hold', 'bury'])
    it(`has a line on disk before the dashboard does ${action}`, {
      skip: skipUnless('root', 'strace'),
    }, async () => {
      const { dashboard, spool, name, act } = await admin()
      const { strace, calls } = await traced(dashboard)
      assert.equal((await act(action)).status, 303)
      assert.equal(readAudit(spool, 2).at(-1)?.task, name)
      strace.kill('SIGINT')
      await new Promise(resolve => strace.once('exit', resolve))
      assertAuditedBefore(calls(), name)
    })

  for (const [what, spoil] of [
    ['the directory .spoold is read-only', (state: string) => chmodSync(state, 0o555)],
    [
      'the audit file is read-only',
      (state: string) => {
        writeFileSync(join(state, 'audit'), '')
        give(join(state, 'audit'))
        chmodSync(join(state, 'audit'), 0o400)
      },
    ],
  ] as const)
    it(`makes every action fail with 503 if ${what}`, async () => {
      const { spool, name, act } = await admin()
      spoil(join(spool, '.spoold'))
      for (const action of ['remove', 'hold', 'bury']) {
        const { status, text } = await act(action)
        assert.equal(status, 503)
        assert.match(text, /nothing was done, because it cannot be written into the audit: .*EACCES/)
      }
      assert.deepEqual(leftIn(spool), [name])
      assert.equal(existsSync(join(spool, '.spoold/records', `${name}.json`)), false)
    })

  it('makes an action fail with 503 if its line does not fit on the disk', {
    skip: skipUnless('root', 'mount'),
  }, async () => {
    const disk = smallDisk('size=1m,mode=0755')
    const spool = join(disk, 'spool')
    mkdirSync(spool)
    chmodSync(dirname(spool), 0o755)
    const { name, act } = await admin(spool)
    for (const bytes of [2 ** 21, 4096])
      try {
        writeFileSync(join(disk, `filler${bytes}`), Buffer.alloc(bytes))
      } catch {} // the disk is full
    await until('no line of the audit fits on the disk', async () => (await act('hold')).status === 503)
    const held = readAudit(spool, 99).length
    const { status, text } = await act('remove')
    assert.equal(status, 503)
    assert.match(text, /cannot be written into the audit: ENOSPC/)
    assert.deepEqual(leftIn(spool), [name])
    assert.equal(readAudit(spool, 99).length, held)
  })
})
