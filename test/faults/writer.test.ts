import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { sweepSpool } from '#src/engines/spool/admin/sweep.js'
import { enqueue } from '#src/index.js'
import { leftIn, packet } from '../helpers/files.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { ROOT, spoolDirectory, workspace } from '../helpers/workspace.js'

/** How often the writer is killed at each step. */
const TIMES = isLong ? 100 : 1
const BODY = 'x'.repeat(100_000)

/** The ways to write a task. */
const WAYS = {
  'synced, with body and time': `spool({ n: 1 }, { ...to, at: 1e9, body })`,
  'not synced, small': `spool({ n: 1 }, { ...to, sync: false })`,
  'not synced, with body': `spool({ n: 1 }, { ...to, sync: false, body })`,
  'blocking, with priority': `spoolSync({ n: 1 }, { ...to, priority: 5 })`,
  'with an id': `spool({ n: 1 }, { ...to, id: 'a', body })`,
  'with an id, not synced': `spool({ n: 1 }, { ...to, id: 'a', body, sync: false })`,
} as const

const scriptOf = (spool: string, call: string) => `
  import { spool, spoolSync } from 'spoold'
  import { rmdirSync } from 'node:fs'
  const to = { spooler: ${JSON.stringify(spool)} }, body = 'x'.repeat(100_000)
  const path = await ${call}
  try { rmdirSync(path) } catch {}`

/** System calls that change files; `rmdir` marks the acknowledgement. Node itself opens hundreds of files first. */
const STEPS = [
  'write',
  'openat',
  'mkdir',
  'pwrite64',
  'utimensat',
  'fdatasync',
  'symlink',
  'rename',
  'fsync',
  'rmdir',
] as const

interface Step {
  readonly call: string
  /** The number of the call among those of its kind in its thread. */
  readonly when: number
}

/** Returns the steps of one write that touch the spool, found by watching a whole write. */
function stepsOf(call: string): Step[] {
  const spool = spoolDirectory()
  const log = join(workspace(), 'log')
  // With -ff each thread has a file of its own, because that is how an injection counts.
  const { status, stderr } = spawnSync(
    'strace',
    [
      '-ff',
      '-y',
      '-s',
      '4096',
      '-e',
      `trace=${STEPS.join(',')}`,
      '-o',
      log,
      process.execPath,
      '--input-type=module',
      '-e',
      scriptOf(spool, call),
    ],
    { cwd: ROOT, encoding: 'utf8' },
  )
  assert.equal(status, 0, stderr)
  return readdirSync(join(log, '..')).flatMap(name => {
    const counts = new Map<string, number>()
    return readFileSync(join(log, '..', name), 'utf8')
      .split('\n')
      .flatMap(line => {
        const kind = /^(\w+)\(/.exec(line)?.[1]
        if (kind === undefined) return []
        const when = (counts.get(kind) ?? 0) + 1
        counts.set(kind, when)
        return line.includes(spool) ? [{ call: kind, when }] : []
      })
  })
}

/**
 * Runs a write that is killed when it comes to a step, which the kernel does not do any more.
 *
 * @returns false if it was not killed, because Node does not always open as many files of its own
 */
async function isKilledAt(spool: string, call: string, step: Step): Promise<boolean> {
  const inject = `inject=${step.call}:signal=KILL:when=${step.when}`
  const node = [process.execPath, '--input-type=module', '-e', scriptOf(spool, call)]
  const child = spawn(
    'strace',
    ['-f', '-qq', '-e', `trace=${step.call}`, '-e', inject, '-o', '/dev/null', ...node],
    {
      cwd: ROOT,
      stdio: 'ignore',
    },
  )
  const [code, signal] = await once(child, 'close')
  return code !== 0 || signal !== null
}

/** Returns a spool whose writer was killed at this step; undefined if none of a few writers came to it. */
async function spoolOfKilled(call: string, step: Step): Promise<string | undefined> {
  for (let tries = 0; tries < 5; tries++) {
    const spool = spoolDirectory()
    if (await isKilledAt(spool, call, step)) return spool
  }
  return undefined
}

/** True if the file holds what it must, whichever way it was written. */
function isWhole(path: string): boolean {
  const bytes = readFileSync(path)
  const heads = [{ n: '1' }, { n: '1', at: '1000000000' }, { n: '1', priority: '5' }]
  return heads.some(vars => ['', BODY].some(body => bytes.equals(packet(vars, body))))
}

const isHidden = (name: string) => /(^|\/)\.spoold-[^/]*\.tmp$/.test(name)

describe('a writer that is killed', { skip: skipUnless('strace') }, () => {
  for (const [way, call] of Object.entries(WAYS))
    it(`at any step leaves a whole task or none: ${way}`, async () => {
      const steps = stepsOf(call)
      assert.ok(steps.length >= 2, JSON.stringify(steps))
      const seen = { whole: 0, absent: 0, killed: 0 }
      for (const step of steps)
        for (let i = 0; i < TIMES; i++) {
          const spool = await spoolOfKilled(call, step)
          if (spool === undefined) continue
          seen.killed++
          const tasks = leftIn(spool).filter(name => !isHidden(name) && !name.startsWith('.spoold/'))
          for (const name of tasks) {
            const path = join(spool, name)
            // A file that is created and not yet written is a task for nobody, see docs/spool-format.md.
            const isEmpty = way === 'not synced, small' && readFileSync(path).length === 0
            assert.ok(isEmpty || isWhole(path), `${name} is broken after ${step.call} ${step.when}`)
            seen[isEmpty ? 'absent' : 'whole']++
          }
          if (tasks.length === 0) seen.absent++
          if (way.startsWith('with an id')) {
            const { path } = await enqueue({ n: 1 }, { spooler: spool, id: 'a', body: BODY })
            assert.ok(isWhole(path))
            const now = leftIn(spool).filter(name => !isHidden(name))
            assert.equal(now.length, 1, `the same id again makes one task after ${step.call} ${step.when}`)
          }
          await new Promise(resolve => setTimeout(resolve, 10))
          await sweepSpool({ spool, graceMs: 5, idTtlMs: 0 })
          assert.deepEqual(leftIn(spool).filter(isHidden), [], 'leftovers are swept')
        }
      assert.ok(seen.whole > 0 && seen.absent > 0, JSON.stringify(seen))
      assert.ok(seen.killed >= (steps.length * TIMES) / 2, JSON.stringify(seen))
    })

  it('in the middle of many calls has stored every task that it acknowledged', async () => {
    for (let i = 0; i < (isLong ? 100 : 5); i++) {
      const spool = spoolDirectory()
      const script = `
        import { spool } from 'spoold'
        import { writeSync } from 'node:fs'
        await Promise.all(Array.from({ length: 64 }, async (_, caller) => {
          for (let i = 0; ; i++)
            writeSync(1, await spool({ caller, i }, { spooler: ${JSON.stringify(spool)} }) + '\\n')
        }))`
      const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
        cwd: ROOT,
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      let text = ''
      const enough = 100 + Math.random() * 2000
      child.stdout.on('data', chunk => {
        text += chunk
        if (text.split('\n').length > enough) child.kill('SIGKILL')
      })
      await once(child, 'close')
      const acknowledged = text.split('\n').slice(0, -1)
      assert.ok(acknowledged.length > 100 - 1)
      const there = new Set(leftIn(spool))
      for (const path of acknowledged) assert.ok(there.has(path.slice(spool.length + 1)), path)
      for (const name of there)
        if (!isHidden(name))
          assert.equal(readFileSync(join(spool, name))[0], 17, 'the remaining task is whole')
    }
  })
})
