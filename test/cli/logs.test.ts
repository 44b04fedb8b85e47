import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { askDaemon } from '#src/engines/control/client.js'
import { USER } from '../helpers/canaries.js'
import { inProcess } from '../helpers/cli.js'
import { controlOf, snapshotOf } from '../helpers/control.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory, workspace } from '../helpers/workspace.js'

describe('spoold logs and quiet', () => {
  it('name the directory or the socket that is closed to this user', {
    skip: skipUnless('root'),
  }, async () => {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    chmodSync(spool, 0o755)
    await startDaemon({ spool })
    const state = join(spool, '.spoold')
    const asUser = [`--reuid=${USER}`, `--regid=${USER}`, '--clear-groups', process.execPath, BIN]
    for (const command of ['logs', 'quiet'])
      for (const [mode, refused] of [
        [0o700, `spoold: ${spool}: EACCES: permission denied, scandir '${state}'`],
        [0o755, `spoold: ${spool}: connect EACCES ${join(state, 'control')}`],
      ] as const) {
        chmodSync(state, mode)
        const user = new TestProcess('setpriv', [...asUser, command, spool])
        assert.equal(await user.code(), 1)
        assert.ok(user.output.startsWith(refused), user.output)
      }
  })

  it('ask each daemon of a configuration once', async () => {
    const [spool, other] = [spoolDirectory(), spoolDirectory()]
    const view = join(workspace(), 'view.sock')
    const handler = `export default (env, task) => { JOURNAL(task.name); throw new Error('no \\x1b[2J') }`
    const daemon = await startDaemon({
      spool,
      handler,
      ini: { spooler: [spool, other], 'spooler-control': `${view},role=viewer` },
    })
    drop(spool)
    await until('the task has failed', () => daemon.output.includes('failed, runs again'))
    const all = await inProcess(['logs', '--ini', daemon.iniFile])
    assert.deepEqual([all.code, all.stderr], [0, ''])
    assert.equal(all.stdout.match(/is running \(pid: /g)?.length, 1)
    assert.ok(all.stdout.includes('Error: no \\x1b[2J') && !all.stdout.includes('\x1b'), all.stdout)
    const bad = await inProcess(['logs', '--json', '--level', 'error', other])
    const [row = assert.fail(), ...more] = bad.stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    assert.deepEqual([row.pid, row.level, more], [daemon.pid, 'error', []])
    assert.ok(row.text.includes('failed, runs again') && Date.parse(row.at) > 0)
    await assert.rejects(askDaemon(view, 'events', { follow: false }), { code: 'forbidden' })

    const on = await inProcess(['quiet', '--ini', daemon.iniFile])
    assert.deepEqual(
      [on.code, on.stdout],
      [0, `${spool}: process ${daemon.pid} is quiet: it starts nothing more\n`],
    )
    await until('the daemon is quiet', async () => (await snapshotOf(spool)).daemon.isQuiet)
    assert.equal((await inProcess(['quiet', other, 'off'])).code, 0)
    await until('the daemon goes on', async () => !(await snapshotOf(spool)).daemon.isQuiet)
    const paused = await inProcess(['pause', '--ini', daemon.iniFile])
    assert.deepEqual([paused.code, paused.stdout.split('\n').length], [0, 3])
    assert.ok(existsSync(join(spool, '.spoold/paused')) && existsSync(join(other, '.spoold/paused')))
    assert.equal((await inProcess(['resume', '--ini', daemon.iniFile])).code, 0)
    assert.ok(!existsSync(join(spool, '.spoold/paused')) && !existsSync(join(other, '.spoold/paused')))
  })

  it('say which spool has no daemon, and exit with 1', async () => {
    const spool = spoolDirectory()
    const ini = join(dirname(spool), 'app.ini')
    writeFileSync(ini, `[uwsgi]\nspooler = ${spool}\n`)
    for (const args of [
      ['logs', spool],
      ['logs', '-f', '--ini', ini],
      ['quiet', spool, 'on'],
    ]) {
      const { code, stderr } = await inProcess(args)
      assert.deepEqual([code, stderr.startsWith(`spoold: ${spool}: no daemon runs it`)], [1, true], stderr)
    }
    assert.equal((await inProcess(['logs', '--level', 'debug', spool])).code, 64)
    assert.equal((await inProcess(['quiet', 'off'])).code, 64)
  })

  it('reach a daemon that was found long before the search ended', async () => {
    const [spool, slow] = [spoolDirectory(), spoolDirectory()]
    await startDaemon({ spool })
    mkdirSync(join(slow, '.spoold'), { mode: 0o700 })
    const held = () =>
      readdirSync(`/proc/${child.pid}/fd`).filter(fd => {
        try {
          return readlinkSync(`/proc/${child.pid}/fd/${fd}`) === join(spool, '.spoold')
        } catch {
          return false // closed by now
        }
      })
    const server = createServer(socket => {
      socket.on('error', () => {})
      void until('nothing of the first spool is open', () => held().length === 0, 4000).finally(() =>
        socket.destroy(),
      )
    })
    await new Promise<void>(resolve => server.listen(controlOf(slow), resolve))
    const child = spawn(process.execPath, [BIN, 'logs', spool, slow], { stdio: ['ignore', 'pipe', 'pipe'] })
    let stdout = ''
    child.stdout.on('data', chunk => (stdout += chunk))
    let stderr = ''
    child.stderr.on('data', chunk => (stderr += chunk))
    await once(child, 'close')
    server.close()
    assert.match(stdout, /is running \(pid: /, stderr)
    assert.equal(stderr.split('\n').length, 2, stderr) // about the slow spool alone
    assert.ok(stderr.startsWith(`spoold: ${slow}: `), stderr)
  })
})
