import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { drop, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { ROOT, spoolDirectory } from '../helpers/workspace.js'

/** Runs the key `run` of the packet as JavaScript. */
const HANDLER = `
import { RetryTask, AbortTask } from ${JSON.stringify(join(ROOT, 'dist/index.js'))}
const run = Object.getPrototypeOf(async () => {}).constructor
export default (env, task) => new run('task', 'RetryTask', 'AbortTask', 'env', env.run)(task, RetryTask, AbortTask, env)`

const countOf = (text: string, part: string) => text.split(part).length - 1

async function startRunner(ini: Record<string, string | number> = {}) {
  const spool = spoolDirectory()
  const daemon = await startDaemon({ spool, handler: HANDLER, ini: { 'spooler-frequency': 1000, ...ini } })
  const run = (name: string, code: string, more = {}) => drop(spool, name, packet({ run: code, ...more }))
  return { spool, daemon, run }
}

describe('an error of a task', () => {
  it("is logged once, with the stack down to where spoold's code begins", async () => {
    const { daemon, run } = await startRunner({ 'spooler-max-attempts': 2 })
    run('throws', 'function deep() { throw new Error("thrown") }; deep()')
    run('says-no', 'throw "no"')
    run('later', 'throw new RetryTask({ retry: "1h", reason: "busy now" })')
    run('given-up', 'throw new AbortTask("no such customer")')
    run('twice', 'throw new RetryTask({ retry: 0, reason: "never" })')
    for (const end of [
      /throws failed/,
      /says-no failed.*\n\[/,
      /task later: /,
      /given-up is buried/,
      /twice is buried: .*\n/,
    ])
      await daemon.waitFor(end)
    const text = daemon.output
    assert.match(
      text,
      /task throws failed, runs again in 1000 s: Error: thrown\n {6}at deep .*\n {6}at eval .*\n/,
    )
    assert.match(text, /task says-no failed, runs again in 1000 s: Error: no\n\[/)
    assert.match(text, /task later: busy now\n/)
    assert.match(text, /task given-up is buried: no such customer\n/)
    assert.match(text, /task twice is buried: it failed twice|task twice is buried: it failed 2 times/)
    assert.equal(countOf(text, 'Error: thrown'), 1)
    assert.doesNotMatch(text, new RegExp(`${join(ROOT, 'dist')}|node:internal|node:events`))
  })

  it("is logged with a stack that ends where spoold's code begins, even with source maps", async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: 'function deep() { throw new Error("thrown") }\nexport default () => deep()',
      env: { ...process.env, NODE_OPTIONS: '--enable-source-maps' },
    })
    drop(spool, 'task', packet({}))
    const pattern = /Error: thrown\n((?: {6}at .*\n)+)/
    await daemon.waitFor(pattern)
    const frames = pattern.exec(daemon.output)?.[1] ?? ''
    assert.match(frames, /^ {6}at deep .*\n {6}at .*handler\.mjs:\d+:\d+\)?\n$/)
  })

  it('is logged once when a promise that is not awaited rejects', async () => {
    const { daemon, run } = await startRunner()
    run('floats', 'Promise.reject(new Error("floating")); await new Promise(() => {})')
    await daemon.waitFor(/uncaught exception, replacing the process.*\n/)
    await daemon.waitFor(/task floats failed/)
    assert.equal(countOf(daemon.output, 'Error: floating'), 1, daemon.output)
  })
})

describe('a value of a packet', () => {
  const EVIL = 'x\n*** HARAKIRI ON THE SPOOLER (pid: 1) ***\r\x1b[2J\u202e'

  it('neither begins a line of its own in the log nor moves the cursor, whatever logs it', async () => {
    const { daemon, run } = await startRunner()
    run('logs', 'task.log(env.evil); return task.SPOOL_OK', { evil: EVIL })
    run('throws', 'throw new Error(env.evil)', { evil: EVIL })
    run('retries', 'return { retry: "1h", reason: env.evil }', { evil: EVIL })
    run('gives-up', 'return { bury: env.evil }', { evil: EVIL })
    const escaped = '\n  *** HARAKIRI ON THE SPOOLER (pid: 1) ***\\x0d\\x1b[2J\\u202e'
    await until('all four tasks have logged the value', () => countOf(daemon.output, escaped) === 4)
    for (const line of daemon.output.split('\n')) {
      assert.doesNotMatch(line, /^\*\*\* HARAKIRI/)
      assert.doesNotMatch(line, /[\p{Cc}\p{Cf}]/u)
    }
  })
})

describe('a stop', () => {
  it('says which task still runs, how long it has, and how to end it at once', async () => {
    const { daemon, run } = await startRunner({ 'worker-reload-mercy': 21 })
    run('long', 'await new Promise(() => setTimeout(() => {}, 60_000))')
    await daemon.waitFor('managing request long')
    daemon.child.kill('SIGTERM')
    await daemon.waitFor('1 task still runs (long), it has 20 s; a second SIGINT or SIGTERM ends it at once')
    daemon.child.kill('SIGQUIT')
    await daemon.code()
  })

  it('also names a task that runs alone', async () => {
    const spool = spoolDirectory()
    drop(spool, 'uwsgi_spoolfile_on_1')
    const handler = `export default async (env, task) => {
      if (task.attempt === 1) process.exit(1)
      JOURNAL('alone')
      await new Promise(() => setTimeout(() => {}, 60_000))
    }`
    const daemon = await startDaemon({ spool, handler, ini: { 'spooler-concurrency': 2 } })
    await until('the task runs alone', () => daemon.journal().length === 1)
    daemon.child.kill('SIGTERM')
    await daemon.waitFor('1 task still runs (uwsgi_spoolfile_on_1)')
    daemon.child.kill('SIGQUIT')
    await daemon.code()
  })

  it('names the task that runs, not tasks that have ended right before it and are not yet reported', async () => {
    const spool = spoolDirectory()
    for (let i = 100; i < 300; i++) drop(spool, `uwsgi_spoolfile_on_${i}`) // fast tasks are reported together
    const handler = `let count = 0
    export default (env, task) => {
      if (++count < 40) return task.SPOOL_OK
      JOURNAL(task.name)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
    }`
    const ini = { 'spooler-processes': 1, 'worker-reload-mercy': 20 }
    const daemon = await startDaemon({ spool, handler, ini, isUnready: true })
    await until('one task blocks', () => daemon.journal().length === 1)
    daemon.child.kill('SIGTERM')
    await daemon.waitFor(/1 task still runs/)
    daemon.child.kill('SIGQUIT')
    await daemon.code()
    assert.ok(daemon.output.includes(`1 task still runs (${daemon.journal()[0]})`))
  })
})

describe('a JSON log', () => {
  it('has the outcome of each task in fields, and no key twice', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: HANDLER,
      ini: { 'log-format': 'json', 'spooler-frequency': 1, cron: '-1 -1 -1 -1 -1 true' },
    })
    const since = Date.now()
    const name = `uwsgi_spoolfile_on_web1_7_1_99_${Math.floor(Date.now() / 1000)}_5000`
    drop(
      spool,
      name,
      packet({ run: 'if (task.attempt === 1) throw new Error("boom"); return task.SPOOL_OK' }),
    )
    await daemon.waitFor(/"outcome":"ok"/)
    daemon.child.kill('SIGTERM')
    await daemon.code()
    const lines = daemon.output.trimEnd().split('\n')
    for (const line of lines) {
      const keys = [...line.matchAll(/[{,]"([a-zA-Z]+)":/g)].map(([, key]) => key)
      assert.equal(new Set(keys).size, keys.length, line)
    }
    const ends = lines.map(line => JSON.parse(line)).filter(({ event }) => event === 'task-ended')
    assert.deepEqual(
      ends.map(({ task, outcome, attempt }) => [task, outcome, attempt]),
      [
        [name, 'error', 1],
        [name, 'ok', 2],
      ],
    )
    const [failed, done] = ends
    assert.match(failed.error, /^Error: boom\n {4}at /)
    assert.ok(failed.nextRunAt >= since + 1000) // one frequency after the end of the run; the line may come later
    assert.equal(done.error, undefined)
    for (const { arrivedAt, waitMs, ranMs } of ends) {
      assert.equal(arrivedAt, Number(name.split('_').at(-2)) * 1000 + 5)
      assert.ok(waitMs >= 0 && waitMs < 20_000 && ranMs >= 0 && ranMs < 20_000)
    }
  })
})
