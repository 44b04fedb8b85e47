import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { inProcess } from '../helpers/cli.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { killEverywhere, type Scene } from '../helpers/kill-everywhere.js'
import { TestProcess } from '../helpers/process.js'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { type Killer, killerBefore } from '../helpers/redis-killer.js'
import { skipUnless } from '../helpers/requires.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

const NAME = 'uwsgi_spoolfile_on_x'
const BYTES = packet({ to: 'joe' }, 'a body')
const SPARE = 3
const skip = skipUnless('redis-server') || skipUnless('strace')

async function run(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await inProcess(args)
  assert.equal(code, 0, `${args.join(' ')}: ${stderr}`)
  return stdout
}

async function statesIn(spooler: string): Promise<string[]> {
  const rows = (await run('ls', spooler, '--json')).split('\n').filter(Boolean)
  return rows.map(row => JSON.parse(row).state as string)
}

/** Removes the due tasks of a spool, as if a daemon had run them, and returns how many they were. */
async function runsIn(spooler: string): Promise<number> {
  const due = (await statesIn(spooler)).filter(state => state === 'due').length
  if (due > 0) await run('rm', spooler, '--state', 'due', '--quiet')
  return due
}

describe('spoold move that is killed at any of its steps', { skip, timeout: 300_000 }, () => {
  let redis: TestRedis
  let killer: Killer
  if (skip === false) {
    redis = startRedis()
    killer = killerBefore(redis.port)
  }
  before(() => redis.ready())
  let names = 0
  const newName = () => `redis://127.0.0.1:${killer.port}/0/killed${names++}`
  let heldHere = 0
  /** How many kills came before anything had changed. */
  let unchanged = 0

  /** Puts a task into the first of two spools, and returns its move with a check of what a killed move leaves. */
  async function sceneOf([from = '', to = '']: readonly string[]): Promise<Scene> {
    const directory = from.startsWith('/') ? from : spoolDirectory()
    drop(directory, NAME, BYTES)
    if (directory !== from) await run('move', '--all', '--quiet', '--to', from, directory)
    const args = ['move', '--all', '--to', to, from]
    return {
      args,
      async check(when) {
        killer.arm(0, 'unsent', () => {})
        const story = `${(await statesIn(from)).join()}|${(await statesIn(to)).join()}`
        assert.ok(['due|', 'held|', 'held|due', '|due'].includes(story), `${when}: ${story}`)
        if (story.startsWith('held')) heldHere++
        if (story === 'due|') unchanged++
        if (to.startsWith('/') && story.endsWith('due'))
          for (const name of leftIn(to).filter(each => each.startsWith('uwsgi')))
            assert.ok(readFileSync(join(to, name)).equals(BYTES), when)
        const ran = await runsIn(to)
        await run(...args, '--quiet')
        assert.deepEqual(await statesIn(from), [], when)
        assert.equal(ran + (await runsIn(to)), 1, when)
      },
    }
  }

  /** Returns how many requests a move makes that is not killed. */
  async function requestsOf(spools: readonly string[]): Promise<number> {
    const { args, check } = await sceneOf(spools)
    killer.arm(0, 'unsent', () => {})
    const { code } = await new TestProcess(process.execPath, [BIN, ...args]).exited
    assert.equal(code, 0)
    const { requests } = killer
    await check('not killed')
    return requests
  }

  const ways = {
    'from a directory to Redis': {
      ends: () => [spoolDirectory(), newName()],
      steps: ['rename', 'pwrite64', 'utimensat', 'unlink'], // held at the source, gone from the source
    },
    'from Redis to a directory': {
      ends: () => [newName(), spoolDirectory()],
      steps: ['symlink', 'rename'], // promised at the target, stored at the target
    },
    'from Redis to Redis': { ends: () => [newName(), newName()], steps: [] },
  }
  for (const [way, { ends, steps }] of Object.entries(ways)) {
    const what = 'the same command completes it, and the task runs once, even if it has run already'
    it(`${way}, killed before a change of files: ${what}`, { skip: steps.length === 0 }, () =>
      killEverywhere(steps, () => sceneOf(ends())),
    )

    it(`${way}, killed around a request: ${what}`, async () => {
      heldHere = 0
      for (const moment of ['unsent', 'unanswered'] as const) {
        unchanged = 0
        // a busy process sends its requests in more pieces, or in fewer
        for (let nth = SPARE + (await requestsOf(ends())); nth > 0 && unchanged < SPARE; nth--) {
          const { args, check } = await sceneOf(ends())
          const command = { process: undefined as TestProcess | undefined }
          killer.arm(nth, moment, () => command.process?.child.kill('SIGKILL'))
          command.process = new TestProcess(process.execPath, [BIN, ...args])
          const { code, signal } = await command.process.exited
          assert.ok(code === 0 || signal === 'SIGKILL', `request ${nth}: ${code} ${command.process.output}`)
          await check(`request ${nth} ${moment}`)
        }
      }
      assert.ok(heldHere >= 2, 'move was killed before storing the task and before removing it')
    })
  }
})
