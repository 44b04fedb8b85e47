import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { startDaemon, writeIni } from '../helpers/daemon.js'
import { drop, leftIn } from '../helpers/files.js'
import { printedBetween } from '../helpers/printed.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

const TASKS = process.env.SPOOLD_TEST_LONG === undefined ? 1000 : 6000

async function logOf(handler: string, ini: Record<string, string | number>, names: readonly string[]) {
  const spool = spoolDirectory()
  for (const name of names) drop(spool, name)
  const log = join(dirname(spool), 'log')
  const daemon = await startDaemon({ spool, handler, ini: { logto: log, ...ini }, isUnready: true })
  const isToldOf = () => readFileSync(log, 'utf8').split(' done with task ').length > names.length
  await until(
    'all tasks are done',
    () => existsSync(log) && leftIn(spool).length === 0 && isToldOf(),
    Math.max(60_000, TASKS * 40),
  )
  daemon.child.kill('SIGTERM')
  assert.equal(await daemon.code(), 0)
  return readFileSync(log, 'utf8')
}

const names = Array.from({ length: TASKS }, (_, i) => `t${i}`)

describe('the output of a JavaScript handler', () => {
  it('is logged whole between the lines of its task, whatever way it is written', async () => {
    const handler = `
      import fs from 'node:fs'
      export default async (env, task) => {
        console.log(task.name + ' log')
        process.stdout.write(task.name + ' in ')
        console.error(task.name + ' error')
        process.stdout.write(Buffer.from('two pieces\\n'))
        if (task.name.endsWith('7')) await new Promise(setImmediate)
        fs.writeSync(1, task.name + ' descriptor\\n')
        process.stderr.write(task.name + ' no newline')
        return task.SPOOL_OK
      }`
    const printed = printedBetween(await logOf(handler, { 'spooler-processes': 1 }, names))
    assert.equal(printed.size, TASKS)
    for (const [name, lines] of printed)
      assert.deepEqual(lines, ['log', 'error', 'in two pieces', 'descriptor', 'no newline'], name)
  })

  it('includes what processes print that the handler starts with its own streams', async () => {
    const handler = `
      import { execFileSync, fork, spawn, spawnSync } from 'node:child_process'
      import { once } from 'node:events'
      import { writeFileSync } from 'node:fs'
      const say = what => ['-c', 'echo "$0 ' + what + '"; echo "$0 ' + what + ' error" >&2']
      const byName = ['-c', 'echo "$0 by name" > /dev/stdout; echo "$0 by name error" > /dev/stderr']
      export default async (env, task) => {
        const child = spawn('sh', [...say('spawned'), task.name], { stdio: 'inherit' })
        await once(child, 'exit')
        await once(spawn('sh', [...byName, task.name], { stdio: 'inherit' }), 'exit')
        const program = task.spooler + '/../forked.mjs'
        writeFileSync(program, 'console.log(process.argv[2] + " forked")')
        await once(fork(program, [task.name]), 'exit')
        const { stdout, status } = spawnSync('sh', [...say('waited'), task.name], { stdio: ['ignore', 2, 'inherit'] })
        execFileSync('sh', ['-c', 'printf "$0 \\\\033[2J *** HARAKIRI"', task.name], { stdio: 'inherit' })
        return stdout === null && status === 0 ? task.SPOOL_OK : task.SPOOL_RETRY
      }`
    const some = names.slice(0, 20)
    const printed = printedBetween(await logOf(handler, { 'spooler-processes': 1 }, some))
    assert.equal(printed.size, some.length)
    const lines = [
      'spawned',
      'spawned error',
      'by name',
      'by name error',
      'forked',
      'waited',
      'waited error',
      '\\x1b[2J *** HARAKIRI',
    ]
    for (const [name, found] of printed) assert.deepEqual(found.sort(), lines.sort(), name)
  })

  it('is in the order in which such a process wrote it, however much there is', async () => {
    const handler = `
      import { spawn } from 'node:child_process'
      import { once } from 'node:events'
      export default async (env, task) => {
        await once(spawn('seq', ['-f', task.name + ' %.0f', '100000'], { stdio: 'inherit' }), 'exit')
        return task.SPOOL_OK
      }`
    const some = names.slice(0, 5)
    const printed = printedBetween(await logOf(handler, { 'spooler-processes': 1 }, some))
    const expected = Array.from({ length: 100_000 }, (_, i) => String(i + 1))
    for (const name of some) {
      const at = printed.get(name)?.findIndex((line, i) => line !== expected[i])
      assert.equal(at, -1, `${name}: line ${at} is ${printed.get(name)?.[at ?? 0]}`)
      assert.equal(printed.get(name)?.length, expected.length)
    }
  })

  it('is logged with the name of its task where several run at a time', async () => {
    const handler = `
      export default async (env, task) => {
        console.log('one')
        await new Promise(resolve => setTimeout(resolve, Math.random() * 20))
        console.log('two')
        return task.SPOOL_OK
      }`
    const log = await logOf(handler, { 'spooler-concurrency': 8 }, names.slice(0, 200))
    for (const name of names.slice(0, 200))
      assert.match(
        log,
        new RegExp(
          `managing request ${name} [^\\n]*\\n(.*\\n)*?\\[spooler \\S+ pid: \\d+\\] ${name}: one\\n(.*\\n)*?\\[spooler \\S+ pid: \\d+\\] ${name}: two\\n(.*\\n)*?.* done with task ${name} `,
        ),
      )
  })

  it('includes the last words of a handler that kills its process', async () => {
    const spool = spoolDirectory()
    const handler = `export default (env, task) => { process.stdout.write('last words of ' + task.name); process.kill(process.pid, 'SIGKILL'); for (;;); }`
    const daemon = await startDaemon({ spool, handler, ini: { 'spooler-max-crashes': 1 } })
    drop(spool, 'a')
    await daemon.waitFor(/managing request a \.\.\.\nlast words of a\n.* was killed by SIGKILL/)
  })

  it('does not end its process, however much there is at once', async () => {
    const spool = spoolDirectory()
    const handler = `export default (env, task) => {
      JOURNAL(task.name + ' in ' + process.pid)
      const text = '\\x01'.repeat(3_000_000) // six bytes each as JSON
      if (task.name === 'a') console.log(text)
      else task.log(text)
      return task.SPOOL_OK
    }`
    const daemon = await startDaemon({ spool, handler })
    const [pid] = daemon.workers()
    for (const name of ['a', 'b']) drop(spool, name)
    await until('both tasks are done', () => leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal().sort(), [`a in ${pid}`, `b in ${pid}`])
  })

  it('cannot be taken for a line of the daemon, and moves no cursor', async () => {
    const spool = spoolDirectory()
    const handler = `export default (env, task) => {
      console.log('*** HARAKIRI ON THE SPOOLER (pid: 1) ***')
      console.log('\\x1b[2Jred\\rgoodbye')
      return task.SPOOL_OK
    }`
    const daemon = await startDaemon({ spool, handler })
    drop(spool, 'a')
    await daemon.waitFor('done with task a')
    assert.match(
      daemon.output,
      /^\[spooler \S+ pid: \d+\] a: \*\*\* HARAKIRI ON THE SPOOLER \(pid: 1\) \*\*\*\n\\x1b\[2Jred\\x0dgoodbye\n/m,
    )
  })

  it('has no colors on a terminal, because the log escapes them', { skip: skipUnless('python3') }, () => {
    const spool = spoolDirectory()
    const [ini, handler] = [join(dirname(spool), 'app.ini'), join(dirname(spool), 'handler.mjs')]
    writeIni(ini, { spooler: spool, 'spooler-import': handler })
    writeFileSync(
      handler,
      `import tty from 'node:tty'
      export default (env, task) => {
        console.log({ answer: 42 }, tty.isatty(1), tty.isatty(2))
        console.error({ question: 'six by nine' })
        return task.SPOOL_OK
      }`,
    )
    drop(spool, 'a')
    const inTerminal = 'import pty, sys; pty.spawn(sys.argv[1:])'
    const { stdout } = spawnSync(PYTHON, ['-c', inTerminal, process.execPath, BIN, '--drain', ini], {
      encoding: 'utf8',
      env: { ...process.env, TERM: 'xterm-256color', NO_COLOR: undefined, FORCE_COLOR: undefined },
      timeout: 30_000,
    })
    assert.match(stdout, /^\{ answer: 42 \} false false\r\n\{ question: 'six by nine' \}\r$/m)
  })

  it('is one object a line in a JSON log, with stream and task, and includes what is printed during the load', async () => {
    const handler = `
      console.error('loading')
      export default (env, task) => { console.log('plain {'); process.stdout.write('no newline'); return task.SPOOL_OK }`
    const log = await logOf(handler, { 'log-format': 'json' }, ['a'])
    const lines = log
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line))
    const printed = lines.filter(({ event }) => event === 'task-printed')
    assert.deepEqual(
      printed.map(({ msg, stream, task }) => [msg, stream, task]),
      [
        ['loading', 'stderr', undefined],
        ['plain {', 'stdout', 'a'],
        ['no newline', 'stdout', 'a'],
      ],
    )
  })
})
