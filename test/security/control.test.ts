import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmodSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import { giveAway, USER } from '../helpers/canaries.js'
import { controlOf } from '../helpers/control.js'
import { startDaemon } from '../helpers/daemon.js'
import { skipUnless } from '../helpers/requires.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** Neither root nor the daemon's user. */
const OTHER = 65_533

/** Prints what a socket answers, or why it cannot be reached. */
const ASK = `
  const [path, verb] = process.argv.slice(1)
  const socket = require('node:net').connect(path, () => socket.write(JSON.stringify({ v: 1, id: 1, verb }) + '\\n'))
  let text = ''
  socket.on('error', ({ code }) => console.log(code))
  socket.on('data', data => {
    if (!(text += data).endsWith('\\n')) return
    const { ok, error } = JSON.parse(text)
    console.log(error?.code ?? 'pid ' + ok.daemon.pid)
    socket.destroy()
  })`

/** Returns what the socket answers a process of this user, with these groups. */
async function asked(
  uid: number,
  groups: readonly number[],
  path: string,
  verb = 'snapshot',
): Promise<string> {
  const rights = groups.length === 0 ? '--clear-groups' : `--groups=${groups}`
  const args = [`--reuid=${uid}`, `--regid=${uid}`, rights, process.execPath, '-e', ASK, path, verb]
  const { stdout } = await promisify(execFile)('setpriv', args, { cwd: '/' })
  return stdout.trim()
}

describe('the spooler-control sockets of a daemon that root starts with uid', {
  skip: skipUnless('root'),
}, () => {
  it('let the group of the user view, and only the user and root act', async () => {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    giveAway(spool)
    const [view, act] = [join(dirname(spool), 'view.sock'), join(dirname(spool), 'act.sock')]
    const daemon = await startDaemon({
      spool,
      ini: { uid: USER, gid: USER, 'spooler-control': [`${view},role=viewer`, act] },
    })
    const rightsOf = (path: string) => {
      const { uid, gid, mode } = statSync(path)
      return [uid, gid, mode & 0o777]
    }
    assert.deepEqual(rightsOf(view), [USER, USER, 0o660])
    assert.deepEqual(rightsOf(act), [USER, USER, 0o600])
    const answers = `pid ${daemon.pid}`
    assert.equal(await asked(OTHER, [USER], view), answers)
    for (const verb of ['stop', 'reload', 'quiet', 'scan', 'reopen-log', 'scale', 'cancel', 'events'])
      assert.equal(await asked(OTHER, [USER], view, verb), 'forbidden', verb)
    assert.equal(await asked(OTHER, [], view), 'EACCES')
    for (const path of [act, controlOf(spool)]) {
      assert.equal(await asked(OTHER, [USER], path), 'EACCES')
      assert.equal(await asked(USER, [], path), answers)
      assert.equal(await asked(0, [], path), answers)
    }
    assert.equal(daemon.isRunning, true)
  })
})
