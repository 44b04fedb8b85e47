import assert from 'node:assert/strict'
import { appendFileSync, existsSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { type DeadLetter, DeadLetters } from '#src/engines/spool/dead-letters.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { startUwsgi, UWSGIS } from '../helpers/uwsgi.js'
import { ROOT, spoolDirectory } from '../helpers/workspace.js'

const NAME = 'uwsgi_spoolfile_on_x'
const INDEX = JSON.stringify(join(ROOT, 'dist/index.js'))

/** Journals the key `n` and the attempt, then runs the key `answer` as JavaScript and returns its result. */
const ANSWERER = `
import { AbortTask, RetryTask } from ${INDEX}
export default async (env, task) => {
  JOURNAL(env.n + ' ' + task.attempt)
  return new Function('task', 'AbortTask', 'RetryTask', env.answer)(task, AbortTask, RetryTask)
}`

type Ini = NonNullable<Parameters<typeof startDaemon>[0]['ini']>

function startAnswerer(spool: string, ini: Ini = {}): Promise<Daemon> {
  return startDaemon({ spool, handler: ANSWERER, ini: { 'spooler-frequency': 1, ...ini } })
}

const ask = (spool: string, name: string, answer: string) => drop(spool, name, packet({ n: name, answer }))

async function letterOf(spool: string, name: string): Promise<DeadLetter> {
  const letters = new DeadLetters(spool)
  // The reason is written first; the file follows.
  await until(`${name} is a dead letter`, () => existsSync(join(spool, '.spoold/dead', name)))
  const letter = letters.read(name)
  assert.ok(letter !== undefined)
  return letter
}

const runsOf = (daemon: Daemon, name: string) => daemon.journal().filter(line => line.startsWith(`${name} `))

describe('a task that always fails', { concurrency: 3 }, () => {
  it('is buried after spooler-max-attempts, logged, and found with its reason', async () => {
    const spool = spoolDirectory()
    const daemon = await startAnswerer(spool, { 'spooler-max-attempts': 3, 'spooler-backoff': 'none' })
    ask(spool, 'thrower', 'throw new Error("no way")')
    ask(spool, 'retrier', 'return task.SPOOL_RETRY')
    const [thrower, retrier] = [await letterOf(spool, 'thrower'), await letterOf(spool, 'retrier')]
    assert.deepEqual(
      [thrower.reason, thrower.attempts, thrower.handlers],
      ['attempts', 3, [daemon.handlerFile]],
    )
    assert.match(thrower.lastError ?? '', /no way/)
    assert.deepEqual([retrier.reason, retrier.attempts], ['attempts', 3])
    assert.deepEqual(runsOf(daemon, 'thrower'), ['thrower 1', 'thrower 2', 'thrower 3'])
    await daemon.waitFor(/task thrower is buried: it failed 3 times, as often as it may.*no way/)
    assert.deepEqual(leftIn(spool), [])
  })

  it('is done, retried or buried as its handler returns or throws', async () => {
    const spool = spoolDirectory()
    const daemon = await startAnswerer(spool)
    ask(spool, 'own', 'return { retry: 0, maxAttempts: 2, reason: "busy" }')
    ask(spool, 'thrown', 'throw new RetryTask({ retry: 0, maxAttempts: 2, reason: "busy" })')
    ask(spool, 'given-up', 'return { bury: "no such customer" }')
    ask(spool, 'aborted', 'throw new AbortTask("no such customer")')
    ask(spool, 'done', 'return { done: true }')
    const [own, thrown] = [await letterOf(spool, 'own'), await letterOf(spool, 'thrown')]
    assert.deepEqual([own.reason, own.lastError], ['attempts', 'busy'])
    assert.deepEqual([thrown.attempts, thrown.reason], [2, 'attempts'])
    const [givenUp, aborted] = [await letterOf(spool, 'given-up'), await letterOf(spool, 'aborted')]
    assert.deepEqual([givenUp.reason, givenUp.detail], ['asked', 'no such customer'])
    assert.match(aborted.detail, /^no such customer$/)
    assert.deepEqual(leftIn(spool), [])
    assert.deepEqual(runsOf(daemon, 'done'), ['done 1'])
  })

  it('is retried by the options, and the log names the key, if its handler misspells one', async () => {
    const spool = spoolDirectory()
    const daemon = await startAnswerer(spool, { 'spooler-max-attempts': 2, 'spooler-backoff': 'none' })
    ask(spool, 'misspelt', 'return { retry: "1h", maxAttemps: 5 }')
    const { reason, attempts } = await letterOf(spool, 'misspelt')
    assert.deepEqual([reason, attempts], ['attempts', 2])
    await daemon.waitFor(/the unknown key maxAttemps; expected some of retry, reason, maxAttempts/)
  })

  it('is buried at the spooler-max-attempts that the last reload set', async () => {
    const spool = spoolDirectory()
    const daemon = await startAnswerer(spool)
    ask(spool, 'retrier', 'return { retry: "100ms" }')
    await until('the task has failed twice', () => runsOf(daemon, 'retrier').length >= 2)
    writeFileSync(daemon.iniFile, `${readFileSync(daemon.iniFile, 'utf8')}spooler-max-attempts = 3\n`)
    daemon.child.kill('SIGHUP')
    const { reason, attempts } = await letterOf(spool, 'retrier')
    assert.equal(reason, 'attempts')
    assert.ok(attempts >= 3, `${attempts}`)
    assert.equal(runsOf(daemon, 'retrier').length, attempts)
  })

  it('waits as long as its handler asks, even across a restart, until its mtime is changed', async () => {
    const spool = spoolDirectory()
    const daemon = await startAnswerer(spool)
    const path = ask(spool, 'waits', 'return task.attempt === 1 ? { retry: "1h" } : task.SPOOL_OK')
    await daemon.waitFor(/managing request waits/)
    await until('the task waits', () => existsSync(join(spool, '.spoold/records/waits.json')))
    daemon.child.kill('SIGTERM')
    await daemon.code()
    const next = await startAnswerer(spool)
    ask(spool, 'other', 'return task.SPOOL_OK')
    await until('the other task has run', () => leftIn(spool).length === 1)
    assert.deepEqual(runsOf(next, 'waits'), ['waits 1'])
    utimesSync(path, new Date(), new Date())
    await until('the task has run', () => leftIn(spool).length === 0)
    assert.deepEqual(runsOf(next, 'waits'), ['waits 1', 'waits 2'])
  })

  for (const uwsgi of UWSGIS)
    it(`waits under ${uwsgi.title}, too`, { skip: skipUnless(uwsgi.needs) }, async () => {
      const spool = spoolDirectory()
      const daemon = await startAnswerer(spool)
      ask(spool, NAME, 'return { retry: "1h" }')
      await until('the task waits', () => existsSync(join(spool, `.spoold/records/${NAME}.json`)))
      daemon.child.kill('SIGTERM')
      await daemon.code()
      startUwsgi({ uwsgi, spool, handler: 'uwsgi.spooler = lambda env: uwsgi.SPOOL_OK' })
      const other = 'uwsgi_spoolfile_on_y'
      drop(spool, other, packet({ n: 'y' }))
      await until('uWSGI has run the other task', () => leftIn(spool).length === 1)
      assert.deepEqual(leftIn(spool), [NAME])
    })
})

describe('a task that kills its process', { concurrency: 3 }, () => {
  for (const [name, answer, cause, ini] of [
    ['killed', 'process.kill(process.pid, "SIGKILL"); for (;;);', /its process was killed by SIGKILL/, {}],
    ['exits', 'process.exit(3)', /its process exited with code 3/, {}],
    ['loops', 'for (;;);', /it overran spooler-harakiri \(0.3 s\)/, { 'spooler-harakiri': 0.3 }],
  ] as const)
    it(`is buried after spooler-max-crashes with its cause (${name}), while other tasks run`, async () => {
      const spool = spoolDirectory()
      const daemon = await startAnswerer(spool, { 'spooler-max-crashes': 2, ...ini })
      ask(spool, name, answer)
      for (let i = 0; i < 20; i++) ask(spool, `good${i}`, 'return task.SPOOL_OK')
      const letter = await letterOf(spool, name)
      assert.deepEqual([letter.reason, letter.crashes], ['crashes', 2])
      assert.match(letter.lastError ?? '', cause)
      assert.equal(runsOf(daemon, name).length, 2)
      await until('the other tasks are done', () => leftIn(spool).length === 0)
    })

  it('makes a task run again that had not finished in that process, and never one that had', async () => {
    const spool = spoolDirectory()
    const gate = join(spool, '../gate')
    const handler = `
      import { existsSync, writeFileSync } from 'node:fs'
      import { setTimeout } from 'node:timers/promises'
      const [SPOOL, GATE] = ${JSON.stringify([spool, gate])}
      const isLeft = name => existsSync(SPOOL + '/' + name)
      export default async (env, task) => {
        JOURNAL(env.n + ' ' + task.attempt)
        if (env.n === 'unfinished') writeFileSync(GATE + '-is-seen', '')
        while (env.n === 'unfinished' && !existsSync(GATE)) await setTimeout(5)
        const isReady = () => existsSync(GATE + '-is-seen') && !isLeft('finished0') && !isLeft('finished1')
        if (env.n === 'kills') {
          for (let i = 0; i < 4000 && !isReady(); i++) await setTimeout(5)
          writeFileSync(GATE, '')
          process.kill(process.pid, 'SIGKILL')
        }
        return task.SPOOL_OK
      }`
    const names = ['unfinished', 'finished0', 'kills', 'finished1']
    for (const name of names) drop(spool, name, packet({ n: name }))
    const ini = { 'spooler-frequency': 1, 'spooler-concurrency': 4, 'spooler-max-crashes': 1 }
    const daemon = await startDaemon({ spool, handler, ini })
    await letterOf(spool, 'kills')
    await until('all tasks are done', () => leftIn(spool).length === 0)
    assert.deepEqual(
      names.map(name => runsOf(daemon, name).length),
      [2, 1, 2, 1],
    )
  })

  it('is not counted as crashed when a stop kills its process after its mercy', async () => {
    const spool = spoolDirectory()
    const ini = { 'spooler-max-crashes': 1, 'worker-reload-mercy': 0.5 }
    const daemon = await startAnswerer(spool, ini)
    ask(spool, 'slow', 'return new Promise(() => {})')
    await until('the task runs', () => runsOf(daemon, 'slow').length === 1)
    daemon.child.kill('SIGTERM')
    await daemon.code()
    const next = await startAnswerer(spool, ini)
    await until('the task runs again', () => runsOf(next, 'slow').length === 2)
    assert.deepEqual(runsOf(next, 'slow'), ['slow 1', 'slow 1'])
  })
})

describe('at-most-once delivery', { concurrency: 3 }, () => {
  for (const [by, handler, ini] of [
    ['spooler-delivery', ANSWERER, { 'spooler-delivery': 'at-most-once' }],
    ['the module', `${ANSWERER}\nexport const delivery = 'at-most-once'`, {}],
  ] as const)
    it(`set by ${by} buries a task whose process dies during its run, and never runs it again`, async () => {
      const spool = spoolDirectory()
      const daemon = await startDaemon({ spool, handler, ini: { 'spooler-frequency': 1, ...ini } })
      ask(spool, 'dies', 'process.exit(1)')
      ask(spool, 'lives', 'return task.SPOOL_OK')
      const letter = await letterOf(spool, 'dies')
      assert.equal(letter.reason, 'outcome-unknown')
      assert.match(letter.detail, /its process exited with code 1; it may have done its work/)
      await until('the other task is done', () => leftIn(spool).length === 0)
      assert.deepEqual(runsOf(daemon, 'dies'), ['dies 1'])
    })

  it('buries a task that a stop cuts short, and logs it', async () => {
    const spool = spoolDirectory()
    const ini = { 'spooler-delivery': 'at-most-once', 'worker-reload-mercy': 1 }
    const daemon = await startDaemon({ spool, handler: ANSWERER, ini })
    ask(spool, 'blocks', 'for (;;);')
    await until('the task runs', () => runsOf(daemon, 'blocks').length === 1)
    const [pid] = daemon.workers()
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    const letter = await letterOf(spool, 'blocks')
    assert.equal(letter.reason, 'outcome-unknown')
    assert.match(
      daemon.output,
      new RegExp(`pid: ${pid}\\] task blocks is buried: its process died; it may have`),
    )
  })

  it('is one of two values: a module with any other delivery does not load', async () => {
    const spool = spoolDirectory()
    const handler = `${ANSWERER}\nexport const delivery = 'exactly-once'`
    const daemon = await startDaemon({ spool, handler, isUnready: true })
    assert.equal(await daemon.code(), 1)
    assert.match(
      daemon.output,
      /\[HANDLER_UNLOADABLE\].*delivery must be one of at-least-once, at-most-once, got "exactly-once"/,
    )
  })
})

describe('an incomplete file that is named like a task of uWSGI', () => {
  it('is buried and logged when its grace is over', async () => {
    const spool = spoolDirectory()
    const daemon = await startAnswerer(spool, { 'spooler-grace': 0.5 })
    writeFileSync(join(spool, NAME), Buffer.from([17, 9, 0, 0, 1]))
    const letter = await letterOf(spool, NAME)
    assert.equal(letter.reason, 'incomplete')
    assert.match(letter.detail, /its header announces 9 bytes, 1 is there; no process holds it/)
    await daemon.waitFor(/task uwsgi_spoolfile_on_x is buried: its header announces 9 bytes/)
    assert.deepEqual([...readFileSync(join(spool, '.spoold/dead', NAME))], [17, 9, 0, 0, 1])
  })

  it('is run once when it is completed within its grace', async () => {
    const spool = spoolDirectory()
    const daemon = await startAnswerer(spool, { 'spooler-grace': 3600 })
    const path = join(spool, NAME)
    const bytes = packet({ n: 'completed', answer: 'return task.SPOOL_OK' })
    writeFileSync(path, bytes.subarray(0, 9))
    ask(spool, 'uwsgi_spoolfile_on_y', 'return task.SPOOL_OK')
    await until('the other task has run', () => leftIn(spool).length === 1)
    assert.deepEqual(runsOf(daemon, 'completed'), [])
    appendFileSync(path, bytes.subarray(9))
    await until('the completed task has run', () => leftIn(spool).length === 0)
    assert.deepEqual(runsOf(daemon, 'completed'), ['completed 1'])
  })
})
