import assert from 'node:assert/strict'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { askDaemon } from '#src/engines/control/client.js'
import { inProcess } from '../helpers/cli.js'
import { controlOf, spoolSnapshotOf } from '../helpers/control.js'
import { type DaemonSetup, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { isAlive } from '../helpers/process.js'
import { lettersIn } from '../helpers/spools.js'
import { patience, until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { hostsOf, startHost } from '../hosts/host-daemon.js'

/** Does as its task says: heeds the signal, ignores it, blocks the process, or ends when its gate is opened. */
const HANDLER = `
import { existsSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
const opened = async gate => { while (!existsSync(gate)) await sleep(10) }
export default async (env, task) => {
  JOURNAL(task.name + ' ' + task.attempt)
  if (env.how === 'heed') await sleep(600_000, undefined, { signal: task.signal })
  if (env.how === 'finish') await sleep(600_000, undefined, { signal: task.signal }).catch(() => {})
  if (env.how === 'ignore') await sleep(600_000)
  if (env.how === 'block') for (;;);
  if (env.how === 'gate') await opened(task.path.replace(/[^/]*$/, '../gate-' + task.name))
  return task.SPOOL_OK
}`

const nameOf = (n: string) => `uwsgi_spoolfile_on_${n}`

async function started(setup: Partial<DaemonSetup> = {}) {
  const spool = setup.spool ?? spoolDirectory()
  const daemon = await startDaemon({ spool, handler: HANDLER, ...setup })
  const runs = (n: string) =>
    until(`${n} runs`, () => daemon.journal().some(line => line.startsWith(`${nameOf(n)} `)))
  const give = (n: string, how: string) => drop(spool, nameOf(n), packet({ how }))
  const open = (n: string) => drop(join(spool, '..'), `gate-${nameOf(n)}`)
  return { spool, daemon, runs, give, open }
}

async function letters(spool: string) {
  const found = new Map<string, { reason: string; detail: string; attempts: number; crashes: number }>()
  for await (const { name, letter } of lettersIn(spool)) if (letter !== undefined) found.set(name, letter)
  return found
}

const cancelled = (path: string) => ({ code: 0, stdout: `cancelled ${path}\n`, stderr: '' })

describe('spoold cancel', () => {
  it('ends at once a handler that heeds its signal, and buries the task, which can be requeued', async () => {
    const { spool, daemon, runs, give } = await started()
    const path = give('heed', 'heed')
    await runs('heed')
    const [worker] = daemon.workers()
    const since = performance.now()
    assert.deepEqual(await inProcess(['cancel', path]), cancelled(path))
    assert.ok(performance.now() - since < 4500 * patience(), 'before the kill')
    const letter = (await letters(spool)).get(nameOf('heed'))
    assert.deepEqual([letter?.reason, letter?.attempts, letter?.crashes], ['cancelled', 0, 0])
    assert.match(letter?.detail ?? '', /^it was cancelled, and ended: AbortError/)
    assert.deepEqual(daemon.workers(), [worker])
    await daemon.waitFor(/task uwsgi_spoolfile_on_heed is cancelled/)
    await daemon.waitFor(/task uwsgi_spoolfile_on_heed is buried: it was cancelled/)
    assert.equal((await inProcess(['requeue', '--all', spool])).code, 0)
    await until('the task runs again', () => daemon.journal().length === 2)
    assert.deepEqual(await inProcess(['cancel', '--all', spool]), cancelled(path))
  })

  it('kills the worker of a handler that does not end, without counting a crash or delaying a spawn', async () => {
    const { spool, daemon, runs, give } = await started()
    for (const how of ['ignore', 'block']) {
      const path = give(how, how)
      await runs(how)
      const [worker = 0] = daemon.workers()
      assert.deepEqual(await inProcess(['cancel', path]), cancelled(path))
      const letter = (await letters(spool)).get(nameOf(how))
      assert.deepEqual([letter?.reason, letter?.attempts, letter?.crashes], ['cancelled', 0, 0])
      assert.match(letter?.detail ?? '', /did not end by itself, so its process was killed/)
      assert.equal(isAlive(worker), false)
      give(`after-${how}`, 'quick')
      await runs(`after-${how}`)
    }
    await until('all tasks have ended', () => leftIn(spool).length === 0)
    assert.doesNotMatch(daemon.output, /OOOPS|next spawn in/)
    await daemon.waitFor(/does not end after being cancelled: killing the process/)
  })

  it('kills a worker only when no other task runs there, and gives that worker nothing more meanwhile', async () => {
    const { spool, daemon, runs, give, open } = await started({
      ini: { 'spooler-processes': 1, 'spooler-concurrency': 3 },
    })
    const path = give('stuck', 'ignore')
    give('beside', 'gate')
    await runs('stuck')
    await runs('beside')
    const [worker = 0] = daemon.workers()
    const answer = inProcess(['cancel', path])
    const seen: unknown[] = []
    const twice = askDaemon(
      controlOf(spool),
      'cancel',
      { spool, task: nameOf('stuck') },
      { silenceMs: Number.POSITIVE_INFINITY, event: news => seen.push(news) },
    )
    await until('cancel waits for the other task', () => seen.some(news => news !== null))
    assert.deepEqual(
      seen.find(news => news !== null),
      { pid: worker, others: 1 },
    )
    assert.equal(isAlive(worker), true)
    give('later', 'quick')
    await until('the new task is known', async () => (await spoolSnapshotOf(spool)).tasks.due === 1)
    assert.equal(daemon.journal().length, 2, 'a process that is about to end gets no new task')
    open('beside')
    const { code, stdout, stderr } = await answer
    assert.deepEqual([code, stdout], [0, `cancelled ${path}\n`])
    assert.match(stderr, /waits until 1 more in its process \(pid \d+\)/)
    assert.deepEqual(await twice, { result: 'cancelled' })
    await runs('later')
    await until('all tasks have ended', () => leftIn(spool).length === 0)
    assert.deepEqual([...(await letters(spool)).keys()], [nameOf('stuck')])
    assert.equal(isAlive(worker), false)
  })

  it('ends two tasks that share a worker with one kill if neither ends by itself', async () => {
    const { spool, daemon, runs, give } = await started({
      ini: { 'spooler-processes': 1, 'spooler-concurrency': 3 },
    })
    const paths = ['one', 'other'].map(n => give(n, 'ignore'))
    for (const n of ['one', 'other']) await runs(n)
    const [worker = 0] = daemon.workers()
    const answers = await Promise.all(paths.map(path => inProcess(['cancel', path])))
    for (const [i, path] of paths.entries()) {
      const { code, stdout } = answers[i] ?? {}
      assert.deepEqual([code, stdout], [0, `cancelled ${path}\n`])
    }
    assert.equal(isAlive(worker), false)
    const killed = daemon.output.split('\n').filter(line => line.includes('killing the process'))
    assert.equal(killed.length, 1)
    const named = /tasks (.*) do not end after being cancelled/.exec(killed[0] ?? '')?.[1]?.split(', ')
    // in the order in which the two requests arrived
    assert.deepEqual(named?.sort(), ['one', 'other'].map(nameOf), killed[0])
    for (const letter of (await letters(spool)).values())
      assert.deepEqual([letter.reason, letter.attempts, letter.crashes], ['cancelled', 0, 0])
    assert.equal((await letters(spool)).size, 2)
  })

  it('gives nothing more to a worker that has to go when another task cancelled there has ended', async () => {
    const { spool, daemon, runs, give, open } = await started({
      ini: { 'spooler-processes': 1, 'spooler-concurrency': 4 },
    })
    give('stuck', 'ignore')
    for (const n of ['late', 'beside']) give(n, 'gate')
    for (const n of ['stuck', 'late', 'beside']) await runs(n)
    const news = new Map<string, unknown[]>()
    const answers = ['stuck', 'late'].map(n => {
      const seen: unknown[] = []
      news.set(n, seen)
      const args = { spool, task: nameOf(n) }
      const hears = { silenceMs: Number.POSITIVE_INFINITY, event: (each: unknown) => seen.push(each) }
      return askDaemon(controlOf(spool), 'cancel', args, hears)
    })
    await until('both commands wait for the other task', () =>
      [...news.values()].every(seen => seen.some(each => each !== null)),
    )
    open('late')
    assert.deepEqual(await answers[1], { result: 'done' })
    give('later', 'quick')
    const isKnown = async () => (await spoolSnapshotOf(spool)).tasks.due === 1
    await until('the new task is known', async () => daemon.journal().length > 3 || (await isKnown()))
    assert.equal(daemon.journal().length, 3)
    open('beside')
    assert.deepEqual(await answers[0], { result: 'cancelled' })
    await runs('later')
    assert.deepEqual([...(await letters(spool)).keys()], [nameOf('stuck')])
  })

  it('leaves a task that ended with SPOOL_OK as done, and says so', async () => {
    const { spool, runs, give } = await started()
    const path = give('finish', 'finish')
    await runs('finish')
    assert.deepEqual(await inProcess(['cancel', path]), {
      code: 1,
      stdout: '',
      stderr: `spoold: ${path}: it ended with SPOOL_OK before it could be cancelled\n`,
    })
    assert.deepEqual([leftIn(spool), (await letters(spool)).size], [[], 0])
  })

  it('ends a task while the daemon stops or reloads, and lets the stop or reload go on', async () => {
    const { spool, daemon, runs, give } = await started()
    const [old = 0] = daemon.workers()
    const first = give('reloaded', 'ignore')
    await runs('reloaded')
    daemon.child.kill('SIGHUP')
    await until('the worker is being replaced', () =>
      daemon.output.includes(`killing the spooler with pid ${old}`),
    )
    assert.deepEqual(await inProcess(['cancel', first]), cancelled(first))
    await daemon.waitFor('reloaded')
    const second = give('stopped', 'ignore')
    await runs('stopped')
    daemon.child.kill('SIGTERM')
    await daemon.waitFor('killing the spooler')
    assert.deepEqual(await inProcess(['cancel', second]), cancelled(second))
    assert.equal(await daemon.code(), 0)
    await daemon.waitFor(/stopped is buried: .*goodbye/s)
    for (const letter of (await letters(spool)).values())
      assert.deepEqual([letter.reason, letter.crashes], ['cancelled', 0])
    assert.equal((await letters(spool)).size, 2)
  })

  it('buries an at-most-once task of a paused spool if its worker dies meanwhile', async () => {
    const { spool, daemon, runs, give } = await started({ ini: { 'spooler-delivery': 'at-most-once' } })
    const path = give('dies', 'ignore')
    await runs('dies')
    assert.equal((await inProcess(['pause', spool])).code, 0)
    await until('the spool is paused', async () => (await spoolSnapshotOf(spool)).paused !== null)
    const [worker = 0] = daemon.workers()
    const answer = inProcess(['cancel', path])
    await daemon.waitFor('is cancelled')
    process.kill(worker, 'SIGKILL')
    assert.deepEqual(await answer, cancelled(path))
    const letter = (await letters(spool)).get(nameOf('dies'))
    assert.deepEqual([letter?.reason, letter?.crashes], ['cancelled', 0])
    assert.match(letter?.detail ?? '', /its process was killed by SIGKILL/)
  })

  it('does not run again a task that cannot be buried, and buries it when that is possible', async () => {
    const { spool, daemon, runs, give } = await started({ ini: { 'spooler-frequency': 1 } })
    const dead = join(spool, '.spoold/dead')
    rmSync(dead, { recursive: true, force: true })
    writeFileSync(dead, '')
    for (const how of ['heed', 'ignore']) {
      const path = give(how, how)
      await runs(how)
      const { code, stdout, stderr } = await inProcess(['cancel', path])
      assert.deepEqual([code, stdout], [1, ''])
      assert.match(stderr, /it was ended, and waits to be buried, which is not possible now: .*dead/)
    }
    const waiting = drop(
      spool,
      nameOf('waits'),
      packet({ how: 'quick' }),
      Math.floor(Date.now() / 1000) + 3600,
    )
    const refusal = await inProcess(['cancel', waiting])
    assert.equal(refusal.code, 1)
    assert.match(refusal.stderr, /it is left as it was, because it cannot be buried: /)
    assert.equal(leftIn(spool).length, 3)
    rmSync(dead)
    await until('both tasks are buried', async () => (await letters(spool)).size === 2)
    for (const letter of (await letters(spool)).values()) assert.equal(letter.reason, 'cancelled')
    assert.equal(daemon.journal().length, 2, 'neither ran again')
    assert.deepEqual(leftIn(spool), [nameOf('waits')])
  })

  it('works with spooler-lock = lockfile, and with names that are not UTF-8', async () => {
    const spool = spoolDirectory()
    const { daemon, runs, give } = await started({ spool, ini: { 'spooler-lock': 'lockfile' } })
    const path = give('leased', 'heed')
    await runs('leased')
    assert.deepEqual(await inProcess(['cancel', path]), cancelled(path))
    writeFileSync(
      Buffer.concat([Buffer.from(`${spool}/odd-`), Buffer.of(0xff, 0xfe)]),
      packet({ how: 'heed' }),
    )
    await until('the task with the odd name runs', () =>
      daemon.journal().some(line => line.startsWith('odd-')),
    )
    const { code, stdout } = await inProcess(['cancel', '--state', 'running', spool])
    assert.equal(code, 0)
    assert.match(stdout, /^cancelled .*\/odd-/)
    assert.equal((await letters(spool)).size, 2)
  })

  it('buries waiting tasks without a daemon, and counts them by their reason', async () => {
    const spool = spoolDirectory()
    const paths = ['a', 'b', 'c'].map(name => drop(spool, nameOf(name), packet({ kind: name })))
    assert.deepEqual((await inProcess(['hold', ...paths.slice(0, 1)])).code, 0)
    assert.deepEqual(await inProcess(['cancel', '--dry-run', ...paths.slice(0, 1)]), {
      code: 0,
      stdout: `would cancel ${paths[0]}\n`,
      stderr: '',
    })
    assert.equal((await inProcess(['cancel', spool])).code, 64)
    assert.equal((await inProcess(['cancel', '--key', 'kind=c', spool])).stdout, `cancelled ${paths[2]}\n`)
    assert.equal((await inProcess(['cancel', '--all', spool])).code, 0)
    assert.deepEqual(leftIn(spool), [])
    const { stdout } = await inProcess(['ls', '--by', 'reason', '--state', 'dead', '--json', spool])
    assert.deepEqual([JSON.parse(stdout).by, JSON.parse(stdout).count], [{ reason: 'cancelled' }, 3])
    assert.match(
      (await inProcess(['show', join(spool, '.spoold/dead', nameOf('a'))])).stdout,
      /\(cancelled\)/,
    )
    const { code, stderr } = await inProcess(['cancel', join(spool, '.spoold/dead', nameOf('a'))])
    assert.equal(code, 1)
    assert.match(stderr, /it is a dead letter/)
    assert.equal((await inProcess(['requeue', '--reason', 'cancelled', spool])).code, 0)
    assert.equal(leftIn(spool).length, 3)
  })

  it('names the process that holds a task that no daemon can be asked to end, and leaves the task', async () => {
    const { daemon, runs, give } = await started({ ini: { 'spooler-control': 'off' } })
    const path = give('held', 'ignore')
    await runs('held')
    const { code, stdout, stderr } = await inProcess(['cancel', path])
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(
      stderr,
      new RegExp(
        `process ${daemon.workers()[0]} \\(.+\\) holds it, and cannot be told to end it: no spoold that can be asked here runs it`,
      ),
    )
    assert.doesNotMatch(daemon.output, /is cancelled/)
  })
})

describe('spoold cancel of programs and interpreters', () => {
  it('ends a program with SIGTERM and the rest of its group with SIGKILL, and keeps the worker', async () => {
    const spool = spoolDirectory()
    const script = join(spool, '../program.sh')
    const out = join(spool, '../out')
    writeFileSync(
      script,
      `if [ $SPOOL_how = ignore ]; then trap '' TERM; else trap "sleep 0.3; echo > ${out}.cleaned; exit 1" TERM; fi
      sleep 600 & echo $! > ${out}.$SPOOL_how
      while :; do wait; sleep 0.01; done`,
    )
    const daemon = await startDaemon({ spool, isForeign: true, ini: { 'spooler-exec': `sh ${script}` } })
    const [worker] = daemon.workers()
    for (const how of ['heed', 'ignore']) {
      const path = drop(spool, nameOf(how), packet({ how }))
      const pidFile = `${out}.${how}`
      await until(
        'the program runs',
        () => existsSync(pidFile) && readFileSync(pidFile, 'utf8').endsWith('\n'),
      )
      const since = performance.now()
      assert.deepEqual(await inProcess(['cancel', path]), cancelled(path))
      if (how === 'heed') assert.ok(existsSync(`${out}.cleaned`), 'the program had time to clean up')
      else assert.ok(performance.now() - since > 4900, 'the program had five seconds to end')
      const letter = (await letters(spool)).get(nameOf(how))
      assert.match(letter?.detail ?? '', /^it was cancelled, and ended: the program /)
      await until('the child of the program is gone', () => !isAlive(Number(readFileSync(pidFile, 'utf8'))))
    }
    assert.deepEqual(daemon.workers().includes(worker ?? 0), true)
  })

  it('lets a program that is named by its path finish and exit with its own code', async () => {
    const spool = spoolDirectory()
    const script = join(spool, '../program.sh')
    writeFileSync(script, `#!/bin/sh\ntrap 'sleep 0.3; exit 0' TERM\necho trapped\nsleep 600 & wait\n`, {
      mode: 0o755,
    })
    const daemon = await startDaemon({ spool, isForeign: true, ini: { 'spooler-exec': script } })
    const path = drop(spool, nameOf('finishes'))
    await daemon.waitFor(': trapped')
    const { stderr } = await inProcess(['cancel', path])
    assert.match(stderr, /it ended with SPOOL_OK before it could be cancelled/)
    await daemon.waitFor(`done with task ${nameOf('finishes')}`)
  })

  for (const [what, commandOf] of [
    ['a list', (program: string) => `${program} && echo more`],
    ['a loop', (program: string) => `for each in 1 2; do ${program}; done`],
    ['a pipe', (program: string) => `{ echo trapped >&2; cat <&4; sleep 600; } | ${program}`],
    ['a shell that waits', (program: string) => `${program} & wait`],
    ['a shell without programs', () => 'echo trapped; while :; do :; done'],
  ] as const)
    it(`buries the task of ${what} of which one command exited with 0, because others were to follow`, async () => {
      const spool = spoolDirectory()
      const script = join(spool, '../program.sh')
      writeFileSync(script, `#!/bin/sh\ntrap 'exit 0' TERM\necho trapped\nsleep 600 & wait\n`, {
        mode: 0o755,
      })
      const ini = { 'spooler-exec': commandOf(script) }
      const daemon = await startDaemon({ spool, isForeign: true, ini })
      const path = drop(spool, nameOf('has-more'))
      await daemon.waitFor(': trapped')
      assert.deepEqual(await inProcess(['cancel', path]), cancelled(path))
      assert.equal((await letters(spool)).get(nameOf('has-more'))?.reason, 'cancelled')
    })

  it('kills an interpreter with its worker, and runs what waited there elsewhere without counting a crash', async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', {
      spool,
      handler: `
def spooler(env):
    journal(env["spooler_task_name"].decode())
    if env.get(b"how") == b"block": time.sleep(600)
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler`,
    })
    const [worker = 0] = daemon.workers()
    const [host = 0] = hostsOf(daemon)
    const path = drop(spool, nameOf('0'), packet({ how: 'block' }))
    await until('the task runs', () => daemon.journal().length === 1)
    for (let n = 1; n < 100; n++) drop(spool, nameOf(String(n)), packet({ how: 'quick' }))
    assert.deepEqual(await inProcess(['cancel', path]), cancelled(path))
    await until('the other tasks have run', () => leftIn(spool).length === 0)
    assert.equal(daemon.journal().length, 100)
    assert.deepEqual(
      [...(await letters(spool)).values()].map(({ reason }) => reason),
      ['cancelled'],
    )
    assert.deepEqual([isAlive(worker), isAlive(host)], [false, false])
  })
})
