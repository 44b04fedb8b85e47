import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import type { SpooldError } from '#src/base/errors.js'
import type { CronCommand } from '#src/base/task/schedule.js'
import {
  parseCommand,
  parseCommand2,
  parseMonitor,
  parseSignalCron,
  parseTimer,
} from '#src/runtime/schedule/ini-schedules.js'
import { spoold } from '../helpers/cli.js'
import { workspace } from '../helpers/workspace.js'

describe('parsing an ini value of', () => {
  const command = (given: Partial<CronCommand>): CronCommand => ({
    kind: 'command',
    command: 'run',
    expression: '-1 -1 -1 -1 -1',
    zone: null,
    isUnique: false,
    harakiriMs: 0,
    ...given,
  })
  const timer = (number: number, everyMs: number) => ({ kind: 'timer', number, everyMs, iterations: 0 })
  const RIGHT: ReadonlyArray<readonly [title: string, parsed: unknown, expected: unknown]> = [
    ['timer', parseTimer('17 60'), timer(17, 60_000)],
    ['timer with blanks', parseTimer(' 0 \t 1 '), timer(0, 1000)],
    ['timer with a fraction', parseTimer('255 0.5'), timer(255, 500)],
    ['fs-signal', parseMonitor('monitor', '/a 3'), { kind: 'monitor', number: 3, path: '/a' }],
    [
      'touch-signal with a blank',
      parseMonitor('touch', '/a b 3'),
      { kind: 'touch', number: 3, path: '/a b' },
    ],
    [
      'signal-cron',
      parseSignalCron('7 0 3 * * mon-fri'),
      { kind: 'cron', number: 7, expression: '0 3 * * mon-fri', zone: null },
    ],
    [
      'signal-cron with a zone and seconds',
      parseSignalCron('7 TZ=Europe/Berlin */5 0 3 * * *'),
      { kind: 'cron', number: 7, expression: '*/5 0 3 * * *', zone: 'Europe/Berlin' },
    ],
    [
      'cron',
      parseCommand('59 -2 -1 -1 7 /bin/echo a  "b"', false, 0),
      command({ expression: '59 -2 -1 -1 7', command: '/bin/echo a  "b"' }),
    ],
    [
      'cron with a zone',
      parseCommand('CRON_TZ=UTC 0 3 * * 1,2 run', true, 5000),
      command({ expression: '0 3 * * 1,2', zone: 'UTC', isUnique: true, harakiriMs: 5000 }),
    ],
    [
      'cron2',
      parseCommand2('minute=-15,hour=3,unique=1,harakiri=9 run', 0),
      command({ expression: '-15 3 -1 -1 -1', isUnique: true, harakiriMs: 9000 }),
    ],
    [
      'cron2 with all keys',
      parseCommand2('day=1,month=2,week=3,unique=0,zone=UTC run it', 7000),
      command({ expression: '-1 -1 1 2 3', zone: 'UTC', command: 'run it', harakiriMs: 7000 }),
    ],
    ['cron2 with harakiri=0', parseCommand2('harakiri=0 run', 7000), command({})],
    ['cron2 without keys', parseCommand2('run --a=b', 0), command({ command: 'run --a=b' })],
  ]
  for (const [title, parsed, expected] of RIGHT) it(title, () => assert.deepEqual(parsed, expected))

  const WRONG: ReadonlyArray<readonly [parse: () => unknown, expected: RegExp]> = [
    [() => parseTimer('17'), /a signal and a number of seconds, such as 17 60, got "17"/],
    [() => parseTimer('17 0'), /a number of seconds/],
    [() => parseTimer('a 5'), /a signal and a number/],
    [() => parseTimer('256 5'), /a signal from 0 to 255, got "256 5"/],
    [() => parseMonitor('monitor', '/a'), /a file and a signal/],
    [() => parseMonitor('touch', '/a 256'), /a signal from 0 to 255/],
    [() => parseSignalCron('0 3 * * *'), /expected a cron expression, got "3 \* \* \*"/],
    [() => parseSignalCron('x 0 3 * * *'), /a signal and a cron expression/],
    [() => parseCommand('0 3 * * *', false, 0), /five fields and a command/],
    [() => parseCommand('0 3 a * * run', false, 0), /expected a cron expression, got "0 3 a \* \*"/],
    [() => parseCommand2('hour=3', 0), /keys and a command/],
    [
      () => parseCommand2('hours=3 run', 0),
      /keys out of minute, hour, day, month, week, unique, harakiri, zone,/,
    ],
    [() => parseCommand2('hour=24 run', 0), /from 0 to 23 for the hour/],
    [() => parseCommand2('harakiri=x run', 0), /a number of seconds for harakiri/],
    [() => parseCommand2('legion=a,hour=3 run', 0), /no legion/],
    [() => parseCommand2('zone=Mars run', 0), /in the zone "Mars"/],
  ]
  for (const [parse, expected] of WRONG)
    it(`a wrong schedule is refused: ${String(parse).replace('() => ', '')}`, () => {
      assert.throws(
        parse,
        (error: SpooldError) => error.code === 'SCHEDULE_INVALID' && expected.test(error.message),
      )
    })
})

describe('spoold check, about schedules', { concurrency: true }, () => {
  const ini = (lines: string) => {
    const directory = workspace()
    const file = join(directory, 'app.ini')
    const handler = join(directory, 'handler.mjs')
    writeFileSync(handler, 'export default () => -2\n')
    writeFileSync(file, `[uwsgi]\nspooler = ${directory}/spool\nspooler-import = ${handler}\n${lines}\n`)
    return file
  }
  const checked = (lines: string, env = {}) =>
    spoold(['check', ini(lines)], { env: { ...process.env, ...env } })

  it('names a date that never comes, which is an error with strict', async () => {
    for (const [line, text] of [
      ['cron = 0 0 30 2 -1 true', 'cron: "0 0 30 2 -1" never comes'],
      ['signal-cron = 1 0 0 31 apr *', 'signal-cron: "0 0 31 apr *" never comes'],
      ['cron2 = minute=0\\,30,hour=0,day=31,month=6 true', 'never comes'],
    ] as const) {
      const { code, stdout, stderr } = await checked(line)
      assert.equal(code, 0, stderr)
      assert.match(`${stdout}${stderr}`, new RegExp(`app\\.ini:4: warning: .*${text.replaceAll('*', '\\*')}`))
      assert.equal((await checked(`${line}\nstrict = true`)).code, 1)
    }
    const { stdout, stderr } = await checked('cron = 0 0 29 2 -1 true')
    assert.doesNotMatch(`${stdout}${stderr}`, /never/)
  })

  it('names the zone in which schedules count, and where the zone comes from', async () => {
    const cron = 'cron = 0 3 * * * true'
    for (const [lines, tz, line] of [
      [
        cron,
        'Asia/Kolkata',
        'the time zone of schedules is Asia/Kolkata, because the environment has TZ=Asia/Kolkata',
      ],
      [
        `${cron}\nenv = TZ=Asia/Tokyo`,
        'UTC',
        'the time zone of schedules is Asia/Tokyo, because the configuration has env = TZ=Asia/Tokyo',
      ],
      [
        cron,
        '',
        `the time zone of schedules is ${Intl.DateTimeFormat('en').resolvedOptions().timeZone}, the zone of the system`,
      ],
      ['signal-cron = 1 TZ=Asia/Tokyo 0 3 * * *', 'UTC', undefined],
    ] as const) {
      const { stdout } = await checked(lines, { TZ: tz })
      assert.equal(
        stdout.split('\n').find(each => each.startsWith('the time zone')),
        line,
      )
    }
  })

  it('warns of a TZ that names no zone, and names the zone that counts instead', async () => {
    for (const tz of ['Europe/Berlim', 'CET-1CEST,M3.5.0,M10.5.0/3'])
      for (const [lines, env, where] of [
        ['', { TZ: tz }, 'environment'],
        [`env = TZ=${tz}`, {}, 'app\\.ini:4'],
      ] as const) {
        const { stdout, stderr } = await checked(lines, env)
        assert.match(
          `${stdout}${stderr}`,
          new RegExp(`${where}: warning: TZ=.* names no time zone: .* are in UTC`),
        )
      }
    for (const tz of [
      '',
      'UTC',
      'UTC0',
      'Europe/Berlin',
      ':Europe/Berlin',
      '/usr/share/zoneinfo/Asia/Kolkata',
      'EST5EDT',
      'GMT+3',
    ]) {
      const { stdout, stderr } = await checked('', { TZ: tz })
      assert.doesNotMatch(`${stdout}${stderr}`, /time zone/, tz)
    }
  })
})
