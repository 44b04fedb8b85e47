import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

/** Runs a daemon as in a container: several of them on one volume all have a master with pid 1. */
const OF_ITS_OWN = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child']

const mayUnshare = spawnSync('unshare', [...OF_ITS_OWN.slice(1), 'true']).status === 0
const skip = mayUnshare ? false : 'the kernel gives this user no pid namespaces'

const HANDLER = `import { readlinkSync } from 'node:fs'
export default async (env, task) => {
  JOURNAL(task.name + ' ' + readlinkSync('/proc/self/ns/pid'))
  await new Promise(resolve => setTimeout(resolve, 5))
  return task.SPOOL_OK
}`

describe('two daemons in pid namespaces of their own', { skip }, () => {
  it('both claim with record locks on one spool, and run each task once', async () => {
    const spool = spoolDirectory()
    const start = () =>
      startDaemon({
        spool,
        handler: HANDLER,
        under: OF_ITS_OWN,
        ini: { 'spooler-processes': 2, 'spooler-frequency': 1 },
      })
    const daemons = await Promise.all([start(), start()])
    for (const { output } of daemons) {
      assert.match(output, /is running \(pid: 1\)/)
      assert.match(output, /claims with record locks/)
    }
    for (let i = 0; i < 400; i++) drop(spool)
    await until('all tasks have run', () => leftIn(spool).length === 0)
    const runs = (daemons[0]?.journal() ?? []).map(line => line.split(' '))
    assert.equal(runs.length, 400)
    assert.equal(new Set(runs.map(([name]) => name)).size, 400)
    assert.equal(new Set(runs.map(([, namespace]) => namespace)).size, 2, 'both took part')
  })
})

describe('a system without /proc', { skip: skipUnless('root', 'mount') }, () => {
  const without = ['-m', 'sh', '-c', 'mount -t tmpfs none /proc && exec "$@"', 'sh', process.execPath, BIN]

  it('lets commands of root find spools of root and of others', () => {
    for (const uid of [0, 65_534]) {
      const spool = spoolDirectory()
      chmodSync(dirname(spool), 0o755)
      chownSync(spool, uid, uid)
      const run = (...args: readonly string[]) => spawnSync('unshare', [...without, ...args])
      const stored = run('enqueue', '--spooler', spool, 'a=b')
      const [name = ''] = leftIn(spool)
      assert.equal(stored.stdout.toString(), `${spool}/${name}\n`, stored.stderr.toString())
      assert.equal(statSync(join(spool, name)).uid, uid)
      const listed = run('ls', spool)
      assert.match(listed.stdout.toString(), new RegExp(name), listed.stderr.toString())
      assert.equal(run('rm', '--all', spool).status, 0)
      assert.deepEqual(leftIn(spool), [])
    }
    const missing = spawnSync('unshare', [...without, 'ls', '/nowhere'])
    assert.equal(
      missing.stderr.toString(),
      'spoold: [SPOOL_UNUSABLE] /nowhere does not exist; name a spool directory\n',
    )
  })
  it('lets a daemon that was started as `node`, as by its first line, claim with record locks', () => {
    const spool = spoolDirectory()
    drop(spool)
    const byName = 'mount -t tmpfs none /proc && PATH="$1:$PATH" && shift && exec node "$@"'
    // execvp passes over a directory of this name, and over a file that is not executable.
    const directory = join(dirname(spool), 'directory')
    const unfit = join(dirname(spool), 'unfit')
    mkdirSync(join(directory, 'node'), { recursive: true })
    mkdirSync(unfit)
    writeFileSync(join(unfit, 'node'), 'no program')
    const path = [directory, unfit, dirname(process.execPath)].join(':')
    const drained = spawnSync('unshare', [
      ...['-m', 'sh', '-c', byName, 'sh', path, BIN],
      ...['--drain', '--spooler', spool, '--spooler-exec', 'true'],
    ])
    assert.match(drained.stderr.toString(), /claims with record locks.*drained: 1 done/s)
    assert.equal(drained.status, 0)
  })
})
