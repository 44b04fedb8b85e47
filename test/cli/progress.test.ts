import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it, mock } from 'node:test'
import { DrainProgress } from '#src/doors/cli/commands/run.js'
import { Output } from '#src/doors/cli/output.js'
import { Progress } from '#src/doors/cli/progress.js'
import { besidesIdle, inProcess } from '../helpers/cli.js'
import { drop, leftIn } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { BIN, spoolDirectory, workspace } from '../helpers/workspace.js'

const CLEAR = '\r\x1b[K'
const TASKS = 300

/** Returns an output to a terminal, and the list of what the terminal and standard output are sent. */
function terminal(isPrintedToTerminal = false) {
  const written: string[] = []
  const output = new Output({
    stdout: text => written.push(`out ${text}`),
    stderr: text => written.push(text),
    isWatched: true,
    isPrintedToTerminal,
  })
  return { output, written }
}

describe('progress', () => {
  it('is shown after two seconds, five times per second, with the rate and the time left', () => {
    const shown: string[] = []
    let now = 1000
    const output = { isWatched: true, status: (text: string) => void shown.push(text) }
    const progress = new Progress(output, 'task', true, () => now)
    progress.expect(10_000)
    for (; now < 1000 + 4000; now++) progress.step()
    assert.equal(shown.length, 10)
    assert.equal(shown[0], '2001 tasks, 1001 per second, 20 %, 8 s left')
    assert.match(shown.at(-1) ?? '', /^3801 tasks, 1000 per second, 38 %, 6 s left$/)
  })

  it('omits the time left if the total is unknown, and is silent without a terminal or if unwanted', () => {
    const shown: string[] = []
    let now = 0
    for (const [isWatched, isWanted] of [
      [true, true],
      [true, false],
      [false, true],
    ] as const) {
      const output = { isWatched, status: (text: string) => void shown.push(text) }
      const progress = new Progress(output, 'task', isWanted, () => now)
      now += 4000
      progress.step()
    }
    assert.deepEqual(shown, ['1 task, 0.3 per second'])
  })

  it('is one line, which any other output on the terminal replaces', () => {
    const { output, written } = terminal()
    output.status('1 of 2')
    output.line('result')
    output.complain('a fault')
    output.complain('another')
    output.status('2 of 2')
    assert.equal(output.exitCode(0), 0)
    assert.deepEqual(written, [
      `${CLEAR}1 of 2`,
      'out result\n',
      CLEAR,
      'spoold: a fault\n',
      'spoold: another\n',
      `${CLEAR}2 of 2`,
      CLEAR,
    ])
  })

  it('gives way to results that are printed on the same terminal', () => {
    const { output, written } = terminal(true)
    output.status('1')
    output.line('result')
    output.status('2')
    output.status('3')
    assert.deepEqual(written, [`${CLEAR}1`, CLEAR, 'out result\n', `${CLEAR}3`])
  })
})

interface Case {
  args(spool: string): string[]
  readonly isForDead?: true
  readonly unit: string
  /** How far the clock advances from one reading to the next. */
  readonly stepMs?: number
}

/** Returns the path of a file with five batches of tasks. */
function manyTasks(): string {
  const file = join(workspace(), 'tasks.jsonl')
  writeFileSync(file, '{"a":1}\n'.repeat(5000))
  return file
}

const COMMANDS: Readonly<Record<string, Case>> = {
  'enqueue --json': {
    args: spool => ['enqueue', '--spooler', spool, '--json', manyTasks()],
    unit: 'tasks',
    stepMs: 2500,
  },
  'rm --all': { args: spool => ['rm', '--all', spool], unit: 'tasks' },
  move: { args: spool => ['move', '--all', spool, '--to', spoolDirectory()], unit: 'tasks' },
  'requeue --all': { args: spool => ['requeue', '--all', spool], isForDead: true, unit: 'tasks' },
  'purge --all': { args: spool => ['purge', '--all', spool], isForDead: true, unit: 'dead letters' },
  fsck: { args: spool => ['fsck', spool], unit: 'checks' },
}

describe('a command that takes long', () => {
  for (const [name, { args, isForDead, unit, stepMs = 25 }] of Object.entries(COMMANDS))
    for (const isWatched of [true, false])
      it(`${name} ${isWatched ? 'shows its progress on a terminal' : 'is silent elsewhere'}`, async () => {
        const spool = spoolDirectory()
        for (let i = 0; i < TASKS; i++) drop(spool)
        if (isForDead) await buryAll(spool)
        let now = performance.now()
        const clock = mock.method(performance, 'now', () => (now += stepMs))
        const { code, stderr } = besidesIdle(await inProcess(args(spool), { isWatched }))
        clock.mock.restore()
        assert.equal(code, 0)
        const pattern = new RegExp(`^\\d+ ${unit}, [\\d.]+ per second, (\\d+) %, \\d+ . left$`)
        const lines = stderr.split(CLEAR).filter(line => line !== '')
        if (!isWatched) return assert.deepEqual(lines, [])
        assert.ok(lines.length > 3, stderr)
        const shares = lines.map(line => Number(pattern.exec(line)?.[1]))
        assert.deepEqual(
          shares,
          [...shares].sort((a, b) => a - b),
          stderr,
        )
        assert.ok(shares.every(share => share >= 0 && share <= 100) && (shares.at(-1) ?? 0) > 80, stderr)
        assert.ok(stderr.endsWith(CLEAR), stderr)
      })

  it('shows progress on a real terminal, but not in a file', { skip: skipUnless('script') }, async () => {
    const spool = spoolDirectory()
    const directory = workspace()
    const paths = join(directory, 'paths')
    const script = join(directory, 'producer.mjs')
    writeFileSync(
      script,
      `for (let i = 0; i < 6; i++) {
        process.stdout.write('{"n":"1"}\\n'.repeat(1000))
        await new Promise(resolve => setTimeout(resolve, 500))
      }`,
    )
    const node = process.execPath
    const command = `${node} ${script} | ${node} ${BIN} enqueue --spooler ${spool} --json - > ${paths}`
    const run = new TestProcess('script', ['-qec', command, '/dev/null'])
    assert.equal(await run.code(), 0)
    assert.ok(
      run.output.split(CLEAR).some(line => /^\d000 tasks, \d+ per second$/.test(line)),
      run.output,
    )
    const last = run.output.split(CLEAR).at(-1) ?? ''
    assert.match(last, /^spoold: no daemon runs \S+: its tasks wait for one\r\n$/)
    assert.equal(readFileSync(paths, 'utf8').split('\n').filter(Boolean).length, 6000)
    assert.equal(leftIn(spool).length, 6000)
  })
})

describe('the progress of a drain', () => {
  it('gives way to the log, and is shown again when the log is silent', () => {
    const { output, written } = terminal(true)
    let now = 0
    const progress = new DrainProgress(output, () => now)
    progress.show(0, 10)
    now = 4000
    progress.show(4, 6)
    progress.logged()
    now = 4300
    progress.show(5, 5)
    now = 5000
    progress.show(5, 5)
    assert.deepEqual(written, [
      `${CLEAR}4 tasks, 1.0 per second, 40 %, 6 s left`,
      CLEAR,
      `${CLEAR}5 tasks, 1.0 per second, 50 %, 5 s left`,
    ])
  })

  it('is shown on a terminal, and not in a pipe or a log', {
    skip: skipUnless('script'),
  }, async () => {
    const spool = spoolDirectory()
    for (let i = 0; i < 30; i++) drop(spool)
    const directory = workspace()
    const [handler, log] = [join(directory, 'handler.mjs'), join(directory, 'log')]
    writeFileSync(
      handler,
      `export default async (env, task) => {
        await new Promise(resolve => setTimeout(resolve, 120))
        return task.SPOOL_OK
      }`,
    )
    const args = ['--drain', '--spooler', spool, '--spooler-import', handler, '--logto', log]
    const command = [process.execPath, BIN, ...args].join(' ')
    const watched = new TestProcess('script', ['-qec', command, '/dev/null'])
    assert.equal(await watched.code(), 0)
    const shown = watched.output.split(CLEAR).filter(line => line !== '')
    assert.ok(shown.length > 1, JSON.stringify(watched.output))
    for (const line of shown.filter(each => !each.startsWith('30 tasks'))) // the last line has no time left
      assert.match(line, /^\d+ tasks, [\d.]+ per second, \d+ %, \d+ s left$/)
    assert.ok(watched.output.endsWith(CLEAR))
    const lines = readFileSync(log, 'utf8')
    assert.ok(lines.includes('drained: 30 done') && !lines.includes('per second'))
    for (let i = 0; i < 25; i++) drop(spool)
    const piped = new TestProcess(process.execPath, [BIN, ...args])
    assert.equal(await piped.code(), 0)
    assert.equal(piped.output, '')
  })
})

async function buryAll(spool: string): Promise<void> {
  mkdirSync(join(spool, '.spoold'), { mode: 0o700 })
  mkdirSync(join(spool, '.spoold/dead'), { mode: 0o700 })
  for (const name of leftIn(spool)) {
    const bytes = readFileSync(join(spool, name))
    writeFileSync(join(spool, '.spoold/dead', name), bytes, { mode: 0o600 })
  }
}
