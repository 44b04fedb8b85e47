import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { giveAway, USER } from '../helpers/canaries.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop } from '../helpers/files.js'
import { childrenOf } from '../helpers/process.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** What `flock`, a wrapper or an init script leaves open, far above what Node itself marks. */
const SHELL = 'exec 200<"$0"; flock -n 200 || exit 9; exec "$@"'
/** Tries to read what a handler must not have. */
const PROGRAM = (seen: string) => `
import os
try: found = os.pread(200, 99, 0).decode()
except OSError as error: found = error.strerror
open('${seen}', 'w').write(found + ' done')
`
/** Returns the descriptors of a process that lead to this file. */
function having(pid: number, file: string): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).filter(fd => readlinkQuietly(`/proc/${pid}/fd/${fd}`) === file)
  } catch {
    return []
  }
}

function readlinkQuietly(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}

const below = (pid: number): number[] => childrenOf(pid).flatMap(child => [child, ...below(child)])

describe('a descriptor that a wrapper left open', { skip: skipUnless('root', 'python3') }, () => {
  for (const [how, more] of [
    ['a daemon', {}],
    ['a daemon with master-as-root', { 'master-as-root': true }],
    ['a daemon in the background', { daemonize: 'log' }],
  ] as const)
    it(`stays open in ${how}, and in no other process`, async () => {
      const spool = spoolDirectory()
      const home = dirname(spool)
      chmodSync(home, 0o755)
      giveAway(spool)
      const secret = join(home, 'secret')
      writeFileSync(secret, 'topsecret\n', { mode: 0o600 })
      const seen = join(home, 'seen')
      writeFileSync(seen, '')
      chmodSync(seen, 0o666)
      const program = join(home, 'program.py')
      writeFileSync(program, `#!${PYTHON}\n${PROGRAM(seen)}`)
      chmodSync(program, 0o755)
      chmodSync(home, 0o777)
      const ini = {
        uid: USER,
        gid: USER,
        'spooler-exec': program,
        stats: join(home, 'stats'),
        pidfile: join(home, 'pid'),
        ...more,
      }
      const under = ['/bin/bash', '-c', SHELL, secret]
      const daemon = await startDaemon({ spool, ini, under, isForeign: true, isUnready: true })
      const isUp = () =>
        existsSync(join(home, 'pid')) && readFileSync(join(home, 'pid'), 'utf8').trim() !== ''
      await until('the daemon runs', () => {
        if (!daemon.isRunning && daemon.child.exitCode !== 0) throw new Error(daemon.output)
        return isUp()
      })
      const pid = Number(readFileSync(join(home, 'pid'), 'utf8'))
      try {
        drop(spool, 'a')
        giveAway(spool)
        await until('the program has run', () => /done/.test(readFileSync(seen, 'utf8')))
        assert.match(readFileSync(seen, 'utf8'), /^Bad file descriptor/)
        const others = below(pid)
        assert.ok(others.length > 0)
        for (const other of others)
          if (other !== pid) assert.deepEqual(having(other, secret), [], `pid ${other}`)
        assert.equal(spawnSync('flock', ['-n', secret, 'true']).status, 1, 'the lock is held')
      } finally {
        process.kill(pid, 'SIGTERM')
        await until('the daemon has ended', () => !existsSync(`/proc/${pid}`))
        await daemon.code()
      }
      assert.equal(spawnSync('flock', ['-n', secret, 'true']).status, 0, 'the lock went with the daemon')
    })
})
