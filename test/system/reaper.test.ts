import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { describe, it } from 'node:test'
import { libcFault } from '#src/system/libc.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn } from '../helpers/files.js'
import { childrenOf } from '../helpers/process.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** The first process of a pid namespace, as in a container. */
const AS_FIRST = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child']
const mayUnshare = spawnSync('unshare', [...AS_FIRST.slice(1), 'true']).status === 0

/** undefined once it is gone */
const nameOf = (pid: number) => inStatusOf(pid, /^Name:\s+(.*)$/m)
/** Returns the pid of a process inside its pid namespace. */
const pidInside = (pid: number) => inStatusOf(pid, /^NSpid:.*\s(\d+)$/m)

function inStatusOf(pid: number, what: RegExp): string | undefined {
  try {
    return what.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  } catch {
    return undefined
  }
}

describe('zombies', { skip: libcFault() !== undefined && 'there is no libc' }, () => {
  it('that nobody waits for are reaped, and Node still gets the exit of each of its 1,000 children', () => {
    // the shell becomes Node, which then has children that it does not know
    const program = `
      const { Reaper } = await import(${JSON.stringify(import.meta.resolve('#src/system/reaper.js'))})
      const { childrenOf } = await import(${JSON.stringify(import.meta.resolve('#src/system/process-usage.js'))})
      const { spawn } = await import('node:child_process')
      const found = childrenOf(process.pid).length
      const reaper = new Reaper(0)
      let heard = 0
      for (let i = 0; i < 20; i++) {
        const children = Array.from({ length: 50 }, () => spawn('sleep', ['60'], { stdio: 'ignore' }))
        const exits = children.map(child => new Promise(resolve => child.once('exit', resolve)))
        for (const child of children) child.kill('SIGKILL')
        const isOver = Promise.all(exits.map(exit => exit.then(() => heard++))).then(() => true)
        // Node has not got these exits yet: it is busy while its children become zombies
        for (const end = performance.now() + 20; performance.now() < end; ) reaper.look(performance.now())
        const late = new Promise(resolve => setTimeout(resolve, 5000, false).unref())
        if (!(await Promise.race([isOver, late]))) break
      }
      for (const end = performance.now() + 5000; childrenOf(process.pid).length > 0 && performance.now() < end; )
        reaper.look(performance.now())
      console.log(JSON.stringify({ found, heard, left: childrenOf(process.pid).length }))
      process.exit() // it would wait for an exit that it never gets`
    const { stdout, stderr } = spawnSync(
      'sh',
      [
        '-c',
        'sleep 0 & sleep 0 & sleep 0.1 & exec "$@"',
        'sh',
        process.execPath,
        '--input-type=module',
        '-e',
        program,
      ],
      { encoding: 'utf8' },
    )
    assert.equal(stderr, '')
    assert.deepEqual(JSON.parse(stdout), { found: 3, heard: 1000, left: 0 })
  })

  it('are reaped only after a grace time, in which a library may wait for them', () => {
    const program = `
      const { Reaper } = await import(${JSON.stringify(import.meta.resolve('#src/system/reaper.js'))})
      const { childrenOf, statOf } = await import(${JSON.stringify(import.meta.resolve('#src/system/process-usage.js'))})
      const reaper = new Reaper(5000)
      const left = () => childrenOf(process.pid).length
      while (statOf(childrenOf(process.pid)[0])[0] !== 'Z') {}
      console.log([0, 4999, 5000].map(now => (reaper.look(now), left())).join(' '))`
    const { stdout } = spawnSync(
      'sh',
      ['-c', 'sleep 0 & exec "$@"', 'sh', process.execPath, '--input-type=module', '-e', program],
      { encoding: 'utf8' },
    )
    assert.equal(stdout, '1 1 0\n')
  })

  const HANDLER = `import { spawnSync } from 'node:child_process'
export default (env, task) => {
  for (let i = 0; i < 3; i++) spawnSync('sh', ['-c', 'sleep 0.2 &'], { stdio: 'ignore' })
  return task.SPOOL_OK
}`

  const namespaces = mayUnshare ? false : 'the kernel gives this user no pid namespaces'
  for (const [who, ini, skip] of [
    ['the daemon', {}, namespaces],
    ['the parent that stays root', { uid: 65534, 'master-as-root': true }, namespaces || skipUnless('root')],
  ] as const)
    it(`that tasks leave behind are reaped by process 1, which stops on SIGTERM, if that is ${who}`, {
      skip,
    }, async () => {
      const spool = spoolDirectory()
      chmodSync(dirname(spool), 0o755)
      const file = drop(spool)
      if ('uid' in ini) for (const path of [spool, file]) chownSync(path, ini.uid, 0)
      const daemon = await startDaemon({ spool, handler: HANDLER, under: AS_FIRST, ini })
      const [first = 0] = childrenOf(daemon.pid)
      const orphans = () => childrenOf(first).filter(pid => nameOf(pid) === 'sleep')
      await until('there are orphans', () => orphans().length > 0)
      await until('all orphans are reaped', () => orphans().length === 0)
      process.kill(first, 'SIGTERM')
      assert.equal((await daemon.exited).code, 0)
    })

  it('do not hide the exits of workers from process 1, which replaces each killed worker', {
    skip: namespaces,
  }, async () => {
    const kills = isLong ? 200 : 12 // after 20, only one per second is replaced at once
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, handler: HANDLER, under: AS_FIRST })
    const [first = 0] = childrenOf(daemon.pid)
    const worker = () => daemon.output.match(/(?<=with pid )\d+/g) ?? []
    for (let killed = 0; killed < kills; killed++) {
      drop(spool, `task-${killed}`) // a task that finishes between two exits keeps the replacement immediate
      const inside = await until('a task has run in the next worker', () =>
        leftIn(spool).length === 0 && worker().length === killed + 1 ? worker().at(-1) : undefined,
      )
      const pid = childrenOf(first).find(each => pidInside(each) === inside)
      process.kill(pid ?? 0, 'SIGKILL')
    }
    const heard = () => daemon.output.match(/the process was killed by SIGKILL/g)?.length
    await until(
      'each exit is logged, and each worker is replaced',
      () => heard() === kills && worker().length === kills + 1,
    )
    process.kill(first, 'SIGTERM')
    assert.equal((await daemon.exited).code, 0)
  })
})
