import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { OPTION_TABLE } from '#src/formats/config/option-table.js'
import { formatProblem } from '#src/formats/ini/setting.js'
import { checkGiven } from '../ini/reading.js'

const HANDLER = { 'h.mjs': '' }

function check(lines: string, argv = ['--ini', 'app.ini'], env = {}) {
  const text = `[uwsgi]\nspooler = one\nspooler-import = h.mjs\n${lines}\n`
  const checked = checkGiven({ files: { 'app.ini': text, ...HANDLER }, argv, env })
  const [spool] = checked.spools
  assert.ok(spool !== undefined)
  return { ...checked, spool: spool.options, list: checked.problems.list.map(formatProblem) }
}

describe("uWSGI's names of the options of adaptive processes", () => {
  it('set the processes of spools when no requests are served, and workers is their maximum', () => {
    for (const maximum of ['workers', 'processes']) {
      const { spool, options, list } = check(
        `cheaper-algo = spare\ncheaper = 2\ncheaper-initial = 5\n${maximum} = 10\ncheaper-step = 1\n` +
          'cheaper-rss-limit-soft = 134217728\ncheaper-rss-limit-hard = 201326592\nreload-on-rss = 1.5\nidle = 2',
      )
      assert.deepEqual(list, [])
      assert.deepEqual(
        [spool.spoolerCheaper, spool.spoolerCheaperInitial, spool.spoolerProcesses, spool.spoolerCheaperStep],
        [2, 5, 10, 1],
      )
      assert.deepEqual([spool.spoolerReloadOnRssBytes, spool.spoolerIdleMs], [1_572_864, 2000])
      assert.equal(options.spoolerCheaperRssLimitSoft, 134_217_728)
    }
  })

  it('do not make workers the maximum without a plain cheaper, or beside spooler-processes', () => {
    const ignored = /these options of uWSGI have no effect in spoold: workers \(app\.ini:4\)/
    const alone = check('workers = 10')
    assert.equal(alone.spool.spoolerProcesses, 1)
    assert.match(alone.list.join('\n'), ignored)
    const beside = check('workers = 10\ncheaper = 1\nspooler-processes = 3')
    assert.equal(beside.spool.spoolerProcesses, 3)
    assert.match(beside.list.join('\n'), ignored)
    const ours = check('workers = 10\nspooler-cheaper = 1\nspooler-processes = 3')
    assert.match(ours.list.join('\n'), ignored)
  })

  it('are left to uWSGI when any option in any place serves requests, as one warning says', () => {
    const serving: Array<[lines: string, argv: string[], env: Record<string, string>, by: string]> = [
      ['http-socket = :80', [], {}, 'http-socket (app.ini:4)'],
      ['php-docroot = .', [], {}, 'php-docroot (app.ini:4)'],
      ['file = app.py', [], {}, 'file (app.ini:4)'],
      ['; nothing', ['--module', 'app'], {}, 'module (command line)'],
      ['; nothing', [], { UWSGI_PSGI: 'app.psgi' }, 'psgi (environment UWSGI_PSGI)'],
    ]
    for (const [lines, argv, env, by] of serving) {
      const { spool, problems } = check(
        `${lines}\ncheaper = 2\nworkers = 10\nidle = 5\nspooler-cheaper-step = 3`,
        ['--ini', 'app.ini', ...argv],
        env,
      )
      assert.deepEqual(
        [spool.spoolerCheaper, spool.spoolerProcesses, spool.spoolerIdleMs, spool.spoolerCheaperStep],
        [0, 1, 0, 3],
      )
      const left = problems.warnings.map(({ message }) => message).filter(each => /left to uWSGI/.test(each))
      assert.deepEqual(left, [
        `left to uWSGI, because ${by} serves requests: cheaper (app.ini:5), idle (app.ini:7); ` +
          'for the processes of spools write spooler-cheaper, spooler-idle',
      ])
    }
  })

  it('are not left to uWSGI for a socket, which takes tasks', () => {
    const { spool, list } = check('socket = 127.0.0.1:0\nsocket-allow = ::1\ncheaper = 2\nworkers = 3')
    assert.deepEqual(list, [])
    assert.equal(spool.spoolerCheaper, 2)
  })

  it('give way to those of spools, in whichever order they come', () => {
    for (const lines of ['cheaper = 1\nspooler-cheaper = 2', 'spooler-cheaper = 2\ncheaper = 1'])
      assert.equal(check(`${lines}\nspooler-processes = 3`).spool.spoolerCheaper, 2)
  })

  it('exist beside each option of a spool, except for those that uWSGI lacks', () => {
    const options = OPTION_TABLE.filter(({ group }) => group === 'scaling')
    const lacking = options.filter(spec => !('plain' in spec)).map(({ name }) => name)
    assert.deepEqual(lacking, ['spooler-cheaper-algos-list', 'spooler-cheaper-wait', 'spooler-cheap'])
    for (const spec of options)
      if ('plain' in spec) assert.equal(`spooler-${spec.plain[0]}`, plainOf(spec.name))
  })

  it('may differ between spools', () => {
    const { spools, list } = checkOf('spooler2 = dir=two,processes=6,cheaper=3,cheaper-algo=spare')
    assert.deepEqual(list, [])
    assert.deepEqual(
      spools.map(({ options }) => options.spoolerCheaper),
      [0, 3],
    )
  })
})

/** Returns `spooler-` and uWSGI's name of an option. `spooler-cheap-start` is `cheap`: uWSGI has a `spooler-cheap`, too. */
function plainOf(name: string): string {
  return name === 'spooler-cheap-start' ? 'spooler-cheap' : name
}

function checkOf(lines: string) {
  const { spools, list } = check(lines)
  return { spools, list }
}

describe('a wrong configuration of adaptive processes', () => {
  // each with what uWSGI 2.0.21 says about it, if anything
  const CASES: ReadonlyArray<readonly [lines: string, problem: RegExp]> = [
    [
      'cheaper = 4\nworkers = 4',
      /app\.ini:4: error: cheaper: invalid cheaper value: must be lower than processes; expected less than 4, got 4/,
    ],
    ['spooler-cheaper = 1', /error: spooler-cheaper: invalid cheaper value: must be lower than processes/],
    [
      'spooler2 = dir=two,cheaper=2,processes=2',
      /app\.ini:4: error: spooler2: cheaper: invalid cheaper value: must be lower than processes/,
    ],
    [
      'cheaper = 2\nworkers = 4\ncheaper-initial = 9',
      /warning: cheaper-initial: invalid cheaper-initial value \(9\), must be lower or equal than worker count \(4\), using 4 as initial number of workers/,
    ],
    [
      'cheaper = 2\nworkers = 4\ncheaper-initial = 1',
      /warning: cheaper-initial: invalid cheaper-initial value \(1\), must be equal or higher than cheaper \(2\), using 2 as initial number of workers/,
    ],
    [
      'max-worker-lifetime-delta = 1\ncheaper = 2\nworkers = 4\ncheaper-initial = 1',
      /warning: cheaper-initial: invalid cheaper-initial value \(1\)/,
    ],
    [
      'cheaper = 2\nworkers = 4\ncheaper-algo = spar',
      /warning: cheaper-algo: unable to find requested cheaper algorithm, falling back to spare; .*did you mean "spare"\?/,
    ],
    [
      'cheaper = 2\nworkers = 4\ncheaper-algo = ./mine.mjs',
      /error: cheaper-algo: expected a module, got \/.*\/mine\.mjs/,
    ],
    ['cheaper-algo = spare', /warning: cheaper-algo: has no effect without spooler-cheaper = N/],
    [
      'cheaper-rss-limit-hard = 5',
      /error: cheaper-rss-limit-hard: enabling cheaper-rss-limit-hard requires setting also cheaper-rss-limit-soft/,
    ],
    [
      'cheaper-rss-limit-soft = 5\ncheaper-rss-limit-hard = 5',
      /error: cheaper-rss-limit-hard: cheaper-rss-limit-hard value must be higher than cheaper-rss-limit-soft value; expected more than 5, got 5/,
    ],
    [
      'cheaper-rss-limit-soft = 134217728\ncheaper-rss-limit-hard = 134217729',
      /warning: cheaper-rss-limit-hard: expected at least the soft limit and the memory of one worker/,
    ],
    [
      'cheaper = 1\nworkers = 2\ncheaper-algo = busyness\ncheaper-busyness-max = 40',
      /warning: cheaper-busyness-max: with 2 processes, expected at least twice the minimum of 25 %, got 40 %/,
    ],
    [
      'cheaper = 1\nworkers = 20\ncheaper-algo = busyness\ncheaper-busyness-min = 60\ncheaper-busyness-max = 50',
      /warning: cheaper-busyness-max: expected more than the minimum of 60 %, got 50 %/,
    ],
    [
      'max-worker-lifetime = 5',
      /error: max-worker-lifetime: invalid min-worker-lifetime value \(10\), must be lower than max-worker-lifetime \(5\)/,
    ],
    [
      'max-worker-lifetime = 10',
      /error: max-worker-lifetime: invalid min-worker-lifetime value \(10\), must be lower than max-worker-lifetime \(10\)/,
    ],
    [
      'check-interval = 0',
      /warning: check-interval: expected more than 0, got 0, which counts as 1, as in uWSGI/,
    ],
    ['reload-on-rss = much', /error: reload-on-rss: expected a number of megabytes, got "much"/],
    ['die-on-idle = true', /warning: die-on-idle: expected idle = SECONDS with it/],
  ]
  for (const [lines, problem] of CASES)
    it(lines.replaceAll('\n', ', '), () => assert.match(check(lines).list.join('\n'), problem))

  const RIGHT = [
    'cheaper = 3\nworkers = 4\ncheaper-initial = 4\nmax-worker-lifetime = 60\nidle = 9\ndie-on-idle = true',
    'cheaper = 3\nworkers = 4\ncheaper-initial = 3',
    'cheaper = 1\nworkers = 4\ncheaper-algo = busyness', // 25 and 50 %
    'cheaper = 1\nworkers = 5\ncheaper-algo = busyness\ncheaper-busyness-max = 40',
    'cheaper = 1\nworkers = 4\ncheaper-busyness-max = 40',
    `cheaper-rss-limit-soft = 134217728\ncheaper-rss-limit-hard = ${134_217_728 + 48 * 1024 * 1024}`,
    'max-worker-lifetime = 11',
    'max-worker-lifetime = 5\nmin-worker-lifetime = 4',
  ]
  for (const lines of RIGHT)
    it(`is not ${lines.replaceAll('\n', ', ')}`, () => assert.deepEqual(check(lines).list, []))
})
