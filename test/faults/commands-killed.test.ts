import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { OK } from '#src/base/task/outcome.js'
import { SpoolView, type TaskView } from '#src/engines/spool/admin/task-view.js'
import { isTaskName } from '#src/engines/spool/names.js'
import { KICKED } from '#src/engines/spool/state-byte.js'
import { inProcess, spoold } from '../helpers/cli.js'
import { beginOf, openEngine } from '../helpers/engine.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { killEverywhere } from '../helpers/kill-everywhere.js'
import { skipUnless } from '../helpers/requires.js'
import { byteOf, recordOf } from '../helpers/spools.js'
import { spoolDirectory } from '../helpers/workspace.js'

const NAME = 'uwsgi_spoolfile_on_x'
const IN_A_YEAR = Math.floor(Date.now() / 1000) + 31_536_000
/** Returns what anybody would take for a task. */
const tasksIn = (spool: string) =>
  leftIn(spool).filter(ref => isTaskName(ref, { ordered: true, strictNames: false }))

/** Runs every task of these spools that would run now, as a daemon does. @returns how many ran */
async function runs(...spools: readonly string[]): Promise<number> {
  let count = 0
  for (const spool of spools) {
    const engine = await openEngine(spool)
    for (const ref of tasksIn(spool)) {
      const claim = engine.claim(ref)
      if ('kind' in claim) continue
      engine.settle(claim, OK, 0)
      count++
    }
  }
  return count
}

async function viewsOf(spool: string): Promise<TaskView[]> {
  const view = new SpoolView(spool)
  const refs = tasksIn(spool)
  for await (const ref of view.dead()) refs.push(ref)
  return refs.flatMap(ref => view.view(ref) ?? [])
}

async function statesIn(spool: string): Promise<string[]> {
  const views = await viewsOf(spool)
  // An empty file is the room that was made for a task: it is not run.
  return views
    .filter(({ state, file }) => !(state === 'incomplete' && file.bytes === 0))
    .map(({ state }) => state)
}

async function done(command: string, spool: string): Promise<void> {
  assert.deepEqual(await inProcess([command, '--all', '--quiet', spool]), { code: 0, stdout: '', stderr: '' })
}

/** Returns a spool with one dead letter that failed once. */
async function withDeadLetter(): Promise<string> {
  const spool = spoolDirectory()
  drop(spool, NAME, packet({ to: 'joe' }))
  const engine = await openEngine(spool)
  engine.settle(beginOf(engine, NAME), { kind: 'bury', detail: 'no such customer' }, 0)
  return spool
}

const slow = { skip: skipUnless('strace'), timeout: 240_000 }

describe('a command that is killed at any of its changes', slow, () => {
  it('requeue leaves the task dead or back in the spool, never both, and it runs once', async () => {
    await killEverywhere(
      ['rename', 'pwrite64', 'utimensat', 'rename', 'unlink'] /* record, byte, time, task, letter */,
      async () => {
        const spool = await withDeadLetter()
        return {
          args: ['requeue', '--keep-attempts', '--all', spool],
          async check(when) {
            const states = await statesIn(spool)
            assert.ok(['dead', 'due'].includes(states.join()), `${when}: ${states}`)
            if (states.includes('dead')) await done('requeue', spool)
            assert.equal(await runs(spool), 1, when)
            assert.deepEqual(await statesIn(spool), [])
          },
        }
      },
    )
  })

  it('hold and release never let the task run early, and it runs once when it is kicked', async () => {
    for (const what of ['hold', 'release']) {
      await killEverywhere(
        what === 'hold'
          ? ['rename', 'pwrite64', 'utimensat']
          : ['utimensat', 'rename'] /* record, byte, time */,
        async () => {
          const spool = spoolDirectory()
          drop(spool, NAME, packet({ to: 'joe' }), IN_A_YEAR)
          if (what === 'release') await done('hold', spool)
          return {
            args: [what, '--all', spool],
            async check(when) {
              const states = await statesIn(spool)
              assert.ok(['held', 'waiting'].includes(states.join()), `${when}: ${states}`)
              assert.equal(await runs(spool), 0, when)
              await done('release', spool)
              assert.equal((await viewsOf(spool))[0]?.dueAtMs, IN_A_YEAR * 1000)
              assert.equal(await runs(spool), 0, when)
              await done('kick', spool)
              assert.equal(recordOf(spool, NAME), undefined)
              assert.equal(
                byteOf(join(spool, NAME)),
                KICKED,
                'the state byte announces no record, because there is none',
              )
              assert.equal(await runs(spool), 1, when)
            },
          }
        },
      )
    }
  })

  it('kick leaves the task held or due, and it runs once', async () => {
    await killEverywhere(['pwrite64', 'utimensat', 'unlink'] /* byte, time, record */, async () => {
      const spool = spoolDirectory()
      drop(spool, NAME, packet({ at: String(IN_A_YEAR) }), IN_A_YEAR)
      await done('hold', spool)
      return {
        args: ['kick', '--all', spool],
        async check(when) {
          const states = await statesIn(spool)
          assert.ok(['held', 'due'].includes(states.join()), `${when}: ${states}`)
          await done('kick', spool)
          assert.equal(await runs(spool), 1, when)
        },
      }
    })
  })

  it('rm leaves the task there or gone', async () => {
    await killEverywhere(['unlink', 'unlink'] /* task, letter */, async () => {
      const spool = await withDeadLetter()
      return {
        args: ['rm', '--state', 'dead', spool],
        async check(when) {
          const states = await statesIn(spool)
          assert.ok(['dead', ''].includes(states.join()), `${when}: ${states}`)
          assert.equal(await runs(spool), 0)
        },
      }
    })
  })

  it('move on one file system leaves the task here or there, and it runs once', async () => {
    await killEverywhere(['rename'], async () => {
      const [from, to] = [spoolDirectory(), spoolDirectory()]
      drop(from, NAME, packet({ to: 'joe' }, 'a body'))
      return {
        args: ['move', '--all', '--to', to, from],
        async check(when) {
          assert.deepEqual([...(await statesIn(from)), ...(await statesIn(to))], ['due'], when)
          assert.equal(await runs(from, to), 1, when)
        },
      }
    })
  })

  const [memory, disk] = [spoolDirectory(), spoolDirectory(tmpdir())]
  const skip = statSync(memory).dev === statSync(disk).dev ? 'there is only one file system' : false
  it('move between file systems is ended by the same command, and the task runs once', { skip }, async () => {
    let heldHere = 0
    await killEverywhere(
      ['pwrite64', 'utimensat', 'symlink', 'rename', 'unlink'] /* held here, promised, there, gone here */,
      async () => {
        const [from, to] = [spoolDirectory(), spoolDirectory(tmpdir())]
        drop(from, NAME, packet({ to: 'joe' }, 'a body'))
        const args = ['move', '--all', '--to', to, from]
        return {
          args,
          async check(when) {
            const [here, there] = [await statesIn(from), await statesIn(to)]
            const story = `${here.join()}|${there.join()}`
            assert.ok(['due|', 'held|', 'held|due', '|due'].includes(story), `${when}: ${story}`)
            const before = await runs(to)
            if (here.includes('held')) {
              heldHere++
              const { stdout } = await spoold(['ls', from])
              assert.ok(stdout.includes(`a move to ${to} did not end`), stdout)
              const { code, stderr } = await spoold(['release', '--all', from])
              assert.equal(code, 1)
              assert.match(stderr, /move it there again, which ends that/)
              const elsewhere = await inProcess(['move', '--all', '--to', spoolDirectory(), from])
              assert.equal(elsewhere.code, 1)
              assert.match(elsewhere.stderr, /did not end: move it there again/)
            }
            assert.equal((await inProcess([...args, '--quiet'])).code, 0, when)
            assert.equal(before + (await runs(from, to)), 1, when)
            assert.deepEqual(leftIn(from), [])
          },
        }
      },
    )
    assert.ok(heldHere >= 2, 'move was killed before storing the task and before removing it')
  })
})
