import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { timeArg } from '#src/admin/operate/args.js'
import { besidesIdle, type CliResult, inProcess, spoold } from '../helpers/cli.js'
import { leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { smallDisk } from '../helpers/small-disk.js'
import { BIN, spoolDirectory, workspace } from '../helpers/workspace.js'

const enqueue = async (spool: string, args: readonly string[], input?: string): Promise<CliResult> =>
  besidesIdle(await inProcess(['enqueue', '--spooler', spool, ...args], input === undefined ? {} : { input }))
const paths = ({ stdout }: CliResult) => stdout.trim().split('\n')

describe('spoold enqueue --json', () => {
  it('stores one object that spans several lines', async () => {
    const spool = spoolDirectory()
    const bytes = Buffer.from([0, 255])
    const object = { to: 'joe', n: 1.5, yes: true, raw: { base64: bytes.toString('base64') } }
    const result = await enqueue(spool, ['--json', '-', 'more=pairs'], JSON.stringify(object, null, 2))
    assert.deepEqual([result.code, result.stderr], [0, ''])
    const expected = packet({ to: 'joe', n: '1.5', yes: 'true', raw: bytes, more: 'pairs' })
    assert.deepEqual(readFileSync(paths(result)[0] ?? ''), expected)
  })

  it('stores thousands of lines in their order, with the same options for all of them', async () => {
    const spool = spoolDirectory()
    const file = join(workspace(), 'tasks.jsonl')
    const count = 3500
    writeFileSync(
      file,
      Array.from({ length: count }, (_, i) => `${JSON.stringify({ i })}\n${i % 9 ? '' : '\n'}`).join(''),
    )
    const result = await enqueue(spool, ['--json', file, '--priority', '4', '--at', '1000000000'])
    assert.deepEqual([result.code, result.stderr], [0, ''])
    assert.equal(leftIn(spool).length, count)
    for (const [i, path] of paths(result).entries()) {
      assert.equal(dirname(path), join(spool, '4'))
      assert.ok(readFileSync(path).includes(`\x01\0i${String.fromCharCode(String(i).length)}\0${i}`), path)
      assert.equal(statSync(path).mtimeMs, 1e12)
    }
  })

  it('stops at a wrong line, and says which line it is and how many tasks are stored', async () => {
    for (const [bad, message] of [
      ['{"a":', /line 3: .*JSON/],
      ['[1]', /line 3: expected an object, got an array/],
      ['{"a":null}', /line 3: the value of "a" must be a string, .*got null/],
      ['{"":1}', /line 3: a key is empty/],
      ['{"priority":"../x"}', /line 3: priority must be digits only/],
    ] as const) {
      const spool = spoolDirectory()
      const { code, stdout, stderr } = await enqueue(
        spool,
        ['--json', '-'],
        `{"a":1}\n{"a":2}\n${bad}\n{"a":4}\n`,
      )
      assert.equal(code, 64, stderr)
      assert.match(stderr, message)
      assert.match(stderr, /\(2 tasks are stored\)\n$/)
      assert.equal(stdout.trim().split('\n').length, 2)
      assert.equal(leftIn(spool).length, 2)
    }
  })

  it('may be repeated with the same --id after it was cut short, and stores no task twice', async () => {
    const spool = spoolDirectory()
    const lines = Array.from({ length: 30 }, (_, i) => JSON.stringify({ i })).join('\n')
    const first = await enqueue(
      spool,
      ['--json', '-', '--id', 'import 7'],
      lines.split('\n').slice(0, 20).join('\n'),
    )
    const again = await enqueue(spool, ['--json', '-', '--id', 'import 7'], lines)
    assert.deepEqual(paths(again).slice(0, 20), paths(first))
    assert.equal(leftIn(spool).length, 30)
  })

  it('says how many tasks are stored when the disk fills up, and exits with 75', {
    skip: skipUnless('root', 'mount'),
  }, async () => {
    const spool = join(smallDisk('size=4m,nr_inodes=200'), 'spool')
    mkdirSync(spool)
    const lines = Array.from({ length: 500 }, (_, i) => JSON.stringify({ i })).join('\n')
    const result = await enqueue(spool, ['--json', '-'], lines)
    assert.equal(result.code, 75)
    assert.match(result.stderr, /^spoold: \[BATCH_INCOMPLETE\] .*ENOSPC.*make room.*tasks are stored\)\n$/)
    assert.equal(leftIn(spool).length, paths(result).length)
    assert.ok(paths(result).length > 100)
  })
})

describe('spoold enqueue', () => {
  it('reads the value of key=@FILE from the file, and takes @@ for an @', async () => {
    const file = join(workspace(), 'value')
    writeFileSync(file, Buffer.from([1, 0, 255]))
    const result = await enqueue(spoolDirectory(), [`a=@${file}`, 'b=@@joe', 'c=x@y'])
    assert.deepEqual(
      readFileSync(paths(result)[0] ?? ''),
      packet({ a: Buffer.from([1, 0, 255]), b: '@joe', c: 'x@y' }),
    )
  })

  it('stores a task with an id once, and says so when it is repeated', async () => {
    const spool = spoolDirectory()
    const first = await enqueue(spool, ['a=1', '--id', 'x'])
    const again = await enqueue(spool, ['a=2', '--id', 'x'])
    assert.deepEqual([again.code, again.stdout], [0, first.stdout])
    assert.match(again.stderr, /with this id was stored before/)
    assert.deepEqual(await enqueue(spool, ['a=3', '--id', 'x', '--quiet']), {
      code: 0,
      stdout: '',
      stderr: '',
    })
    assert.equal(leftIn(spool).length, 1)
  })

  it('streams a body of 300 MB within 200 MB of memory', async () => {
    const file = join(workspace(), 'body')
    execFileSync('truncate', ['-s', '300M', file])
    const spool = spoolDirectory()
    const child = new TestProcess(process.execPath, [
      '--max-old-space-size=64',
      BIN,
      'enqueue',
      '--spooler',
      spool,
      'a=1',
      '--body',
      file,
    ])
    let peak = 0
    while (child.isRunning) {
      const rss = /^VmHWM:\s+(\d+)/m.exec(readStatus(child.pid))?.[1]
      peak = Math.max(peak, Number(rss ?? 0) / 1024)
      await new Promise(resolve => setTimeout(resolve, 5))
    }
    assert.equal(await child.code(), 0, child.output)
    const path = besidesIdle({ stderr: child.output }).stderr.trim()
    assert.equal(statSync(path).size, 300 * 2 ** 20 + packet({ a: '1' }).length)
    assert.ok(peak > 0 && peak < 200, `${peak} MB`)
  })

  it('stores into the first spooler of an ini, external or not, and refuses one that the ini does not name', async () => {
    const [first, second] = [spoolDirectory(), spoolDirectory()]
    const directory = workspace()
    const link = join(directory, 'link')
    symlinkSync(first, link)
    const ini = join(directory, 'app.ini')
    writeFileSync(ini, `[uwsgi]\nspooler-external = ${link}/\nspooler = ${second}\nspooler-sync = off\n`)
    const into = async (...args: string[]) =>
      spoold(['enqueue', '--ini', ini, 'a=1', ...args], { cwd: directory })
    assert.equal(dirname(paths(await into())[0] ?? ''), first)
    assert.equal(dirname(paths(await into(`spooler=${second}`))[0] ?? ''), second)
    const refused = await into(`spooler=${directory}`)
    assert.equal(refused.code, 64)
    assert.match(refused.stderr, /^spoold: \[SPOOLER_UNKNOWN\] spooler must be one of /)
    assert.deepEqual([leftIn(first).length, leftIn(second).length], [1, 1])
    writeFileSync(ini, '[uwsgi]\nmaster = true\n')
    const none = await into()
    assert.match(none.stderr, /^spoold: \[CONFIG_INVALID\] .*names no spooler/)
    assert.equal(readdirSync(directory).length, 2)
  })
})

describe('--at', () => {
  const now = Date.UTC(2026, 0, 1)
  for (const [text, seconds] of [
    ['1700000000', 1_700_000_000],
    ['+90', now / 1000 + 90],
    ['+5m', now / 1000 + 300],
    ['+2h', now / 1000 + 7200],
    ['+1d', now / 1000 + 86_400],
    ['2026-12-24T08:00Z', Date.UTC(2026, 11, 24, 8) / 1000],
    ['2026-12-24 08:00', new Date(2026, 11, 24, 8).getTime() / 1000],
  ] as const)
    it(`understands ${text}`, () => assert.equal(timeArg('--at', text, now), seconds))

  for (const text of ['', '5m', '+', '+5y', 'tomorrow', '+99999999999999'])
    it(`refuses ${JSON.stringify(text)}`, () =>
      assert.throws(() => timeArg('--at', text, now), { code: 'USAGE' }))
})

function readStatus(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return ''
  }
}
