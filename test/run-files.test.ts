import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { isAlive, TestProcess } from './helpers/process.js'
import { patience, until } from './helpers/until.js'
import { ROOT, workspace } from './helpers/workspace.js'

/** `startDaemon` starts a process in its own session, whose parent has ended, and its child: as a daemon and its worker are. */
const PRELUDE = `
const { it } = require('node:test')
const { existsSync, readFileSync } = require('node:fs')
const { spawnSync } = require('node:child_process')
const startDaemon = pids => spawnSync('sh', ['-c', \`
  setsid sh -c 'sleep 600 & echo $$ $! >\${pids}; wait' >/dev/null 2>&1 &
  until [ -s \${pids} ]; do sleep 0.01; done\`])
const pidsOf = file => readFileSync(file, 'utf8').split(' ').map(Number)
const isAlive = pid => existsSync('/proc/' + pid) && !/State:\\\\s+Z/.test(readFileSync('/proc/' + pid + '/status', 'utf8'))
const until = probe => new Promise(resolve => {
  const timer = setInterval(() => probe() && resolve(clearInterval(timer)), 5)
})
process.chdir(__dirname)
`

interface Run {
  readonly runner: TestProcess
  /** The processes that a test file started with `startDaemon`. */
  pids(name: string): number[]
  /** The results of each test file, once the runner has ended. */
  counts(): Readonly<Record<string, { passed: number; failed: number }>>
}

/**
 * Runs test files as test/run.mjs does.
 *
 * @param files their sources, by their names @param shares the directory of runs that share the processors
 * @param wall what each is expected to take, in seconds @param isAgain what failed may run again
 */
function runFiles(
  files: Readonly<Record<string, string>>,
  limitMs: number,
  { shares, wall = 1, isAgain = false }: { shares?: string; wall?: number; isAgain?: boolean } = {},
): Run {
  const directory = workspace()
  const write = (name: string, text: string) => writeFileSync(join(directory, name), text)
  write('package.json', '{ "type": "commonjs" }')
  const names = Object.keys(files).map(name => `${name}.test.js`)
  for (const [name, source] of Object.entries(files)) write(`${name}.test.js`, PRELUDE + source)
  write(
    'run.mjs',
    `import { writeFileSync } from 'node:fs'
    import { basename } from 'node:path'
    import { runAgain, runFiles } from ${JSON.stringify(join(ROOT, 'test/run-files.mjs'))}
    const paths = ${JSON.stringify(names.map(name => join(directory, name)))}
    const nameOf = path => basename(path, '.test.js')
    const options = { processors: 2, nameOf, weightOf: () => ({ cpu: ${wall}, wall: ${wall} }), limitMs: ${limitMs}, lingerMs: 500 }
    const counts = await runFiles(paths, options)
    if (${isAgain}) await runAgain(counts, options)
    const named = [...counts].map(([file, { passed, failed }]) => [nameOf(file), { passed, failed }])
    writeFileSync(${JSON.stringify(join(directory, 'counts'))}, JSON.stringify(Object.fromEntries(named)))`,
  )
  const read = (name: string) => readFileSync(join(directory, name), 'utf8')
  const pids = (name: string) =>
    existsSync(join(directory, name)) ? read(name).split(' ').filter(Boolean).map(Number) : []
  after(() => {
    for (const pid of Object.keys(files).flatMap(pids)) if (isAlive(pid)) process.kill(pid)
  })
  return {
    runner: new TestProcess(process.execPath, [join(directory, 'run.mjs')], {
      // NODE_TEST_CONTEXT says that this is the process of a test file
      env: { NODE_TEST_CONTEXT: undefined, SPOOLD_TEST_SHARES: shares },
    }),
    pids,
    counts: () => JSON.parse(read('counts')),
  }
}

describe('the runner of the tests', { concurrency: true }, () => {
  it('ends a file at its limit, with all that this file has started', async () => {
    const limitMs = 8000 * patience() // a slow machine takes seconds to start a file
    const run = runFiles(
      {
        hanging: `
          it('is fine', () => {})
          it('hangs', () => { startDaemon('hanging'); return new Promise(() => setInterval(() => {}, 1000)) })`,
        // Gives the next file its limit 2 s after that of the hanging one.
        between: `
          it('takes 2 s', () => new Promise(resolve => setTimeout(resolve, 2000)))`,
        beside: `
          it('is not touched', async () => {
            startDaemon('beside')
            await until(() => existsSync('hanging') && !pidsOf('hanging').some(isAlive))
            if (!pidsOf('beside').every(isAlive)) throw new Error('was ended too')
            for (const pid of pidsOf('beside')) process.kill(pid)
          })`,
      },
      limitMs,
    )
    assert.equal(await run.runner.code(30_000 + limitMs), 0, run.runner.output)
    const [daemon, child] = run.pids('hanging')
    assert.match(
      run.runner.output,
      new RegExp(`hanging\\.test\\.js did not end within ${limitMs / 1000} s: ended\\n`),
    )
    for (const pid of [daemon, child]) {
      assert.match(run.runner.output, new RegExp(`^  ${pid} (sh -c )?sleep 600`, 'm'))
      assert.ok(!isAlive(pid ?? 0), `${pid} is alive`)
    }
    assert.deepEqual(run.counts(), {
      hanging: { passed: 1, failed: 1 },
      between: { passed: 1, failed: 0 },
      beside: { passed: 1, failed: 0 },
    })
  })

  it('fails a file that leaves a process behind, and ends that process', async () => {
    const run = runFiles({ untidy: `it('is fine', () => startDaemon('untidy'))` }, 60_000)
    assert.equal(await run.runner.code(30_000), 0, run.runner.output)
    assert.match(run.runner.output, /untidy\.test\.js left processes behind: ended\n {2}\d+ sh -c sleep 600/)
    assert.equal(run.pids('untidy').length, 2)
    assert.ok(!run.pids('untidy').some(isAlive))
    assert.deepEqual(run.counts(), { untidy: { passed: 1, failed: 1 } })
  })

  /** Lets a file say when it has ended. */
  const ENDS = `process.on('exit', () => require('node:fs').writeFileSync(__filename + '.ended', ''))`

  it('counts a test of a suite that files share for the file that ran it, and repeats at the end what failed', async () => {
    const run = runFiles(
      {
        shared: `module.exports = ok => it('is shared', () => { if (!ok) throw new Error('not ' + 'ok') })`,
        first: `${ENDS}; require('./shared.test.js')(true)`,
        second: `${ENDS}; require('./shared.test.js')(false)`,
        third: `it('is the last', async () => {
          await until(() => existsSync('first.test.js.ended') && existsSync('second.test.js.ended'))
          await new Promise(resolve => setTimeout(resolve, 2000)) // both are shown
        })`,
      },
      60_000,
    )
    assert.equal(await run.runner.code(30_000), 0, run.runner.output)
    assert.deepEqual(run.counts(), {
      shared: { passed: 0, failed: 0 },
      first: { passed: 1, failed: 0 },
      second: { passed: 0, failed: 1 },
      third: { passed: 1, failed: 0 },
    })
    assert.match(run.runner.output, /✔ is the last[^✔]*✖ failing tests:[^✔]*✖ is shared.*\n +Error: not ok/)
  })

  it('gives a file no processor that another run with the same shares uses', async () => {
    const place = workspace()
    const shares = join(place, 'shares')
    const begins = (name: string, awaits: string) => `it('runs', () => {
      require('node:fs').writeFileSync('${place}/${name}', '')
      return until(() => existsSync('${place}/${awaits}'))
    })`
    const has = (name: string) => until(name, () => existsSync(join(place, name)))
    const first = runFiles({ holding: begins('holding', 'free') }, 60_000, { shares })
    await has('holding')
    const second = runFiles({ one: begins('one', 'two'), two: begins('two', 'free') }, 60_000, { shares })
    await has('one')
    assert.equal(readdirSync(shares).length, 2, 'one each')
    writeFileSync(join(place, 'free'), '')
    for (const { runner } of [first, second]) assert.equal(await runner.code(30_000), 0, runner.output)
    assert.deepEqual(second.counts(), { one: { passed: 1, failed: 0 }, two: { passed: 1, failed: 0 } })
  })

  /** A test that fails once. */
  const ONCE = `it('runs', () => {
    const before = __filename + '.before'
    if (existsSync(before)) return
    require('node:fs').writeFileSync(before, '')
    require('node:assert').strictEqual(1, 2)
  })`
  const FINE = `it('is fine', () => {})`
  const TWO = { one: ONCE, two: ONCE }
  const EIGHT = { ...TWO, three: ONCE, four: ONCE, five: ONCE, six: ONCE, seven: ONCE, eight: ONCE }
  for (const [what, files, wall, most, isTried] of [
    ['runs two failed files again, alone', { ...TWO, fine: FINE }, 1000, 2, true],
    [
      'runs none of three failed files again on a machine that keeps the pace',
      { ...TWO, three: ONCE, fine: FINE },
      1000,
      2,
      false,
    ],
    [
      'runs eight failed files again, alone, on a machine that is late',
      { ...EIGHT, fine: FINE },
      0.01,
      8,
      true,
    ],
    [
      'runs none of nine failed files again on a machine that is late',
      { ...EIGHT, nine: ONCE, fine: FINE },
      0.01,
      8,
      false,
    ],
  ] as const)
    it(`${what}, and prints the errors and the measured pace`, async () => {
      const run = runFiles(files, 60_000, { wall, isAgain: true })
      assert.equal(await run.runner.code(30_000), 0, run.runner.output)
      const { fine, ...others } = run.counts()
      assert.deepEqual(fine, { passed: 1, failed: 0 })
      const after = isTried ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 }
      for (const [name, counts] of Object.entries(others)) assert.deepEqual(counts, after, name)
      const names = Object.keys(others).sort()
      const said = isTried ? 'again, alone' : 'not again, too many failed'
      assert.match(
        run.runner.output,
        new RegExp(
          `^${said}: ${names.join(', ')}\\nagain: at most ${most}, as files took \\d+\\.\\d\\d times what weights.json has`,
          'm',
        ),
      )
      const reasons = [...run.runner.output.matchAll(/^again: (\S+: runs: .*)$/gm)].map(([, line]) => line)
      assert.deepEqual(
        reasons,
        names.map(name => `${name}: runs: Expected values to be strictly equal: 1 !== 2`),
      )
    })

  it('ends all that it has started when it is ended itself', async () => {
    const run = runFiles(
      {
        hanging: `it('hangs', () => { startDaemon('hanging'); return new Promise(() => setInterval(() => {}, 1000)) })`,
      },
      60_000,
    )
    const [daemon = 0, child = 0] = await until('the file has started its daemon', () =>
      run.pids('hanging').length === 2 ? run.pids('hanging') : undefined,
    )
    run.runner.child.kill('SIGTERM')
    assert.equal(await run.runner.code(30_000), 1)
    assert.match(run.runner.output, /ended with this run\n/)
    assert.deepEqual([daemon, child].filter(isAlive), [])
  })
})
