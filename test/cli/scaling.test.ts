import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { ALGORITHMS } from '#src/runtime/supervisor/scaling/algorithms.js'
import { inProcess } from '../helpers/cli.js'
import { workspace } from '../helpers/workspace.js'

const place = workspace()
let files = 0
function file(text: string, ending = 'csv'): string {
  const path = join(place, `${++files}.${ending}`)
  writeFileSync(path, text)
  return path
}
const INI = file(
  `[uwsgi]\nspooler = ${place}\nspooler-processes = 4\nspooler-cheaper = 1\nspooler-cheaper-overload = 1\n`,
  'ini',
)
/** Three tasks at once, of ten seconds each, and one more half a minute later. */
const LOAD = file('due,ran\n1.5,10\n1.5,10 # a comment\n\n1.5,10\n31.5,0.5\n')

async function scaling(...args: string[]): Promise<string[]> {
  const { code, stdout, stderr } = await inProcess(['scaling', ...args])
  assert.deepEqual([code, stderr], [0, ''])
  return stdout.trimEnd().split('\n')
}

const refused = async (...args: string[]) => (await inProcess(['scaling', INI, ...args])).stderr

describe('spoold scaling', () => {
  it('compares all algorithms, the configured one first and a fixed number last, above a chart', async () => {
    const lines = await scaling(INI, '--load', LOAD, '--set', 'spooler-cheaper-algo=backlog')
    const names = lines.slice(1, lines.indexOf('')).map(line => line.split(' ')[0])
    const built = ALGORITHMS.map(({ name }) => name).filter(name => name !== 'manual' && name !== 'backlog')
    assert.deepEqual(names, ['backlog', ...built, 'fixed'])
    const fixed = lines.find(line => line.startsWith('fixed'))
    assert.deepEqual(fixed?.split(/ {2,}/), ['fixed', '4-4', '128', '0 ms', '0 ms', '0 ms', '0'])
    assert.ok(
      lines.some(line => line.startsWith('fixed') && line.includes('████████') && line.endsWith('of 4')),
    )
    assert.ok(lines.some(line => /^longest wait .* of \d+ ms$/.test(line)))
  })

  it('prints each second of each algorithm as CSV', async () => {
    const lines = await scaling(INI, '--load', LOAD, '--algorithms', 'spare,fixed', '--csv')
    assert.deepEqual(lines.slice(0, 5), [
      'algorithm,second,workers,backlog,busyness,wait_ms',
      'spare,1,1,2,50,0',
      'spare,2,2,2,100,0',
      'spare,3,2,1,80,1900',
      'spare,4,3,1,100,0',
    ])
    assert.equal(
      lines.find(line => line.startsWith('fixed,1,')),
      'fixed,1,4,0,38,0',
    )
  })

  it('prints one second for a load that takes less than a second', async () => {
    const lines = await scaling(INI, '--load', file('0,0.2\n'), '--algorithms', 'spare')
    assert.match(lines[1] ?? '', /^spare +1-1 +1 /)
    assert.match(lines.at(-1) ?? '', /^ +0 1 s$/)
  })

  it('prints one object per algorithm as JSON', async () => {
    const [line = ''] = await scaling(INI, '--load', LOAD, '--algorithms', 'fixed', '--json')
    const { algorithm, tasks, left, p95Ms, doneMs, seconds } = JSON.parse(line)
    assert.deepEqual([algorithm, tasks, left, p95Ms, doneMs], ['fixed', 4, 0, 0, 31_000])
    assert.deepEqual(seconds[1], { workers: 4, backlog: 0, busyness: 75, waitMs: 0 })
  })

  it('reads the ended tasks from the JSON log of a daemon, with --spool those of one spool', async () => {
    const ended = (at: string, spool: string, more: object) =>
      JSON.stringify({ time: at, event: 'task-ended', spool, outcome: 'ok', ...more })
    const log = file(
      [
        '{"time":"2026-01-01T00:00:00.000Z","msg":"spawned"}',
        ended('2026-01-01T00:00:10.000Z', place, { ranMs: 2000, waitMs: 1000 }),
        ended('2026-01-01T00:00:11.000Z', '/elsewhere', { ranMs: 500, waitMs: 0 }),
        ended('2026-01-01T00:00:12.000Z', place, { ranMs: 1000, waitMs: 0 }),
        '{"cut off "task-ended"',
      ].join('\n'),
    )
    const tasksOf = async (...args: string[]) => {
      const [line = ''] = await scaling(INI, '--from-log', log, '--algorithms', 'fixed', '--json', ...args)
      const { tasks, doneMs } = JSON.parse(line)
      return [tasks, doneMs]
    }
    assert.deepEqual(await tasksOf(), [3, 5000])
    assert.deepEqual(await tasksOf('--spool', place), [2, 5000])
  })

  it('begins with as many workers as a daemon: spooler-cheaper-initial, within the limits', async () => {
    const many = file('0,10\n'.repeat(9)) // each worker has a task, so none may go
    const withFirst = async (...set: string[]) => {
      const lines = await scaling(INI, '--load', many, '--algorithms', 'manual', '--csv', ...set)
      return lines[1]?.split(',')[2]
    }
    assert.equal(await withFirst(), '1')
    assert.equal(await withFirst('--set', 'spooler-cheaper-initial=3'), '3')
    assert.equal(await withFirst('--set', 'spooler-cheaper-initial=9'), '4')
    assert.equal(await withFirst('--set', 'spooler-cheaper=2', '--set', 'spooler-cheaper-initial=1'), '2')
  })

  it('refuses a configuration that no daemon would start with', async () => {
    const { code, stderr } = await inProcess(['scaling', INI, '--load', LOAD, '--set', 'spooler-cheaper=4'])
    assert.equal(code, 1)
    assert.match(stderr, /invalid cheaper value: must be lower than processes; expected less than 4, got 4/)
  })

  it('lets a module of the user decide, and prints once the error that it throws', async () => {
    const good = file('export default () => ({ target: 3, state: 0, reason: "three" })', 'mjs')
    const lines = await scaling(INI, '--load', LOAD, '--algorithms', good, '--csv')
    assert.ok(lines.some(line => line.startsWith(`${good},2,3,`)))
    const bad = file('export default () => { throw new Error("no idea") }', 'mjs')
    const { code, stderr } = await inProcess(['scaling', INI, '--load', LOAD, '--algorithms', bad])
    assert.equal(code, 1)
    assert.equal(stderr.split('no idea').length, 2)
  })

  it('counts the tasks that no worker has begun when the simulation ends', async () => {
    const csv = file('0,60\n0,60\n')
    const [, line = ''] = await scaling(
      INI,
      '--load',
      csv,
      '--algorithms',
      'cheap',
      '--set',
      'spooler-processes = 2',
    )
    assert.match(line, /^cheap +2-2 /)
    const never = file('export default () => ({ target: 1, state: 0, reason: "" })', 'mjs')
    const endless = file(`${'0,86400\n'.repeat(3)}`)
    const [, left = ''] = await scaling(INI, '--load', endless, '--algorithms', never)
    assert.match(left, / 1$/)
  })

  const WRONG = [
    ['0,1,2', /:1: expected two numbers, .* got "0,1,2"/],
    ['0,1\n5', /:2: expected two numbers/],
    ['0,1\nx,1', /:2: expected two numbers/],
    ['0,-1', /:1: expected two numbers/],
    ['0,1\n,1', /:2: expected two numbers/],
    ['0,700000', /:1: expected a run of at most 7 days/],
    ['0,1\n1767225600,1', /expected at most 31 days .* got 20454; are the times seconds\?/],
    ['due,ran\n', /has no task/],
  ] as const
  for (const [text, message] of WRONG)
    it(`refuses ${JSON.stringify(text)}`, async () =>
      assert.match(await refused('--load', file(text)), message))

  it('refuses a load, pattern, algorithm, spool, time or number of processors that it cannot use', async () => {
    assert.match(await refused(), /USAGE.*expected one of --load FILE, --from-log FILE and --pattern NAME/)
    assert.match(await refused('--load', LOAD, '--pattern', 'idle'), /USAGE.*expected one of/)
    assert.match(
      await refused('--pattern', 'constructor'),
      /expected one of idle, ramp, burst, sawtooth, long, got "constructor"/,
    )
    assert.match(await refused('--load', LOAD, '--algorithms', 'spear'), /ALGORITHM_UNLOADABLE.*got "spear"/)
    assert.match(await refused('--load', LOAD, '--spool', '/x'), /--spool: expected one of those/)
    assert.match(await refused('--load', LOAD, '--start-time', 'soon'), /--start-time: expected a time/)
    assert.match(await refused('--load', LOAD, '--processors', '0'), /--processors: expected a number from 1/)
    assert.match(await refused('--load', join(place, 'missing')), /FILE_UNREADABLE/)
  })
})
