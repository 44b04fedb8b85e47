import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { inProcess } from '../helpers/cli.js'
import { drop, packet } from '../helpers/files.js'
import { spoolDirectory } from '../helpers/workspace.js'

const NOW = Math.floor(Date.now() / 1000)
/** Returns a generated name that says when the task arrived. */
const arrived = (host: string, secondsAgo: number) => `uwsgi_spoolfile_on_${host}_1_1_1_${NOW - secondsAgo}_0`

async function ls(spool: string, ...args: string[]): Promise<string[]> {
  const { code, stdout, stderr } = await inProcess(['ls', ...args, spool])
  assert.deepEqual([stderr, code], ['', 0])
  return stdout.trimEnd().split('\n')
}

const rows = async (spool: string, ...args: string[]) =>
  (await ls(spool, '--json', ...args)).filter(line => line !== '').map(line => JSON.parse(line))
/** Returns the hosts in the names that ls lists. */
const hosts = async (spool: string, ...args: string[]) =>
  (await rows(spool, ...args)).map(({ name }) => /_on_([a-z]+)_/.exec(name)?.[1])

function furnished(): string {
  const spool = spoolDirectory()
  mkdirSync(join(spool, '5'))
  const failed = {
    attempts: 3,
    crashes: 0,
    lastError: 'smtp: refused\n  at stack',
    firstFailureAt: NOW * 1000,
  }
  const file = (name: string, vars: Record<string, string>, mtime = NOW - 10) =>
    drop(spool, name, packet(vars), mtime)
  file(arrived('old', 9000), { kind: 'mail', to: 'joe@example.org', n: '1' })
  file(arrived('young', 5), { kind: 'mail', to: 'jane@example.com', long: 'x'.repeat(40) })
  file(`5/${arrived('urgent', 60)}`, { kind: 'report', to: 'jim' })
  file(arrived('later', 280), { kind: 'report' }, NOW + 500)
  file(arrived('sooner', 215), { kind: '' }, NOW + 100)
  const letter = {
    ...failed,
    ref: arrived('dead', 400),
    reason: 'attempts',
    detail: 'it failed 3 times',
    buriedAt: (NOW - 50) * 1000,
    handlers: [],
    host: 'h',
  }
  mkdirSync(join(spool, '.spoold', 'dead'), { recursive: true, mode: 0o700 })
  drop(spool, `.spoold/dead/${letter.ref}`, packet({ kind: 'mail', to: 'ключ' }))
  writeFileSync(join(spool, '.spoold', 'dead', `${letter.ref}.json`), JSON.stringify(letter))
  return spool
}

describe('the order of ls', () => {
  for (const [args, expected] of [
    [[], ['urgent', 'old', 'young', 'sooner', 'later', 'dead']],
    [['--reverse'], ['later', 'sooner', 'young', 'old', 'urgent', 'dead']],
    [
      ['--sort', 'priority'],
      ['urgent', 'old', 'later', 'sooner', 'young', 'dead'],
    ],
    [
      ['--sort', 'name'],
      ['urgent', 'later', 'old', 'sooner', 'young', 'dead'],
    ],
    [
      ['--sort', 'age'],
      ['old', 'later', 'sooner', 'urgent', 'young', 'dead'],
    ],
    [
      ['--sort', 'age', '--reverse'],
      ['young', 'urgent', 'sooner', 'later', 'old', 'dead'],
    ],
    [
      ['--sort', 'due', '--state', 'waiting'],
      ['sooner', 'later'],
    ],
    [
      ['--sort', 'bytes', '--limit', '2'],
      ['young', 'old'],
    ],
    [
      ['--limit', '4'],
      ['urgent', 'old', 'young', 'sooner'],
    ],
    [
      ['--limit', '6'],
      ['urgent', 'old', 'young', 'sooner', 'later', 'dead'],
    ],
    [['--limit', '1', '--state', 'dead'], ['dead']],
    [
      ['--match', 'to=*@example.*'],
      ['old', 'young'],
    ],
    [
      ['--match', 'kind=?*', '--match', 'to=j[io]*'],
      ['urgent', 'old'],
    ],
    [['--match', 'kind='], ['sooner']],
    [['--match', 'to=кл*'], ['dead']],
    [['--grep', 'люч'], ['dead']],
    [['--grep', 'example.org'], ['old']],
    [['--grep', 'smtp: refused'], ['dead']],
    [['--grep', '_on_yo'], ['young']],
    [['--grep', 'kind'], []],
  ] as const)
    it(`${args.join(' ') || 'without a flag'}`, async () => {
      assert.deepEqual(await hosts(furnished(), ...args), expected)
    })

  it('--sort none lists all tasks, and as many as --limit allows', async () => {
    const found = await hosts(furnished(), '--sort', 'none')
    assert.deepEqual([...found].sort(), ['dead', 'later', 'old', 'sooner', 'urgent', 'young'])
    assert.equal((await hosts(furnished(), '--sort', 'none', '--limit', '3')).length, 3)
  })

  it('--sort attempts lists first what failed most often', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '.spoold', 'records'), { recursive: true, mode: 0o700 })
    for (const [host, attempts] of [
      ['once', 1],
      ['often', 9],
      ['never', 0],
    ] as const) {
      const bytes = packet({})
      if (attempts > 0) bytes[3] = 1 // the state byte announces the record
      drop(spool, arrived(host, 10), bytes)
      if (attempts > 0)
        writeFileSync(
          join(spool, '.spoold', 'records', `${arrived(host, 10)}.json`),
          JSON.stringify({ attempts, crashes: 0, lastError: `error ${attempts}` }),
        )
    }
    assert.deepEqual(await hosts(spool, '--sort', 'attempts'), ['often', 'once', 'never'])
    assert.deepEqual(await hosts(spool, '--sort', 'attempts', '--limit', '1'), ['often'])
  })
})

describe('the days of --newer-than and --older-than', () => {
  it('begin at midnight', async () => {
    const spool = spoolDirectory()
    const midnight = new Date().setHours(0, 0, 0, 0) / 1000
    const named = (host: string, seconds: number) => `uwsgi_spoolfile_on_${host}_1_1_1_${seconds}_0`
    const day = (daysAgo: number) =>
      new Date(new Date().setHours(0, 0, 0, 0)).setDate(new Date().getDate() - daysAgo) / 1000
    drop(spool, named('first', midnight), packet({}))
    drop(spool, named('last', midnight - 1), packet({}))
    drop(spool, named('before', day(1) - 1), packet({}))
    assert.deepEqual(await hosts(spool, '--newer-than', 'today'), ['first'])
    assert.deepEqual(await hosts(spool, '--older-than', 'today'), ['before', 'last'])
    assert.deepEqual(await hosts(spool, '--newer-than', 'yesterday', '--older-than', 'today'), ['last'])
    const date = new Date(midnight * 1000)
    const text = [date.getFullYear(), date.getMonth() + 1, date.getDate()]
      .map(part => String(part).padStart(2, '0'))
      .join('-')
    assert.deepEqual(await hosts(spool, '--newer-than', text), ['first'])
  })
})

describe('the values that ls shows', () => {
  it('are columns of the table with --show', async () => {
    const [header = '', ...lines] = await ls(furnished(), '--show', 'kind,to', '--state', 'due')
    assert.match(header, /^STATE +PRIORITY +DUE IN +AGE +BYTES +FAILED +kind +to +NAME +NOTE$/)
    assert.match(lines[0] ?? '', /^due +5 .* report +jim +5\/uwsgi/)
    assert.match(lines[1] ?? '', / mail +joe@example\.org +uwsgi/)
  })

  it('are all pairs of the packet with --vars', async () => {
    const [header = '', first = ''] = await ls(furnished(), '--vars', '--grep', '_on_old_')
    assert.match(header, / VARS +NAME/)
    assert.match(first, / kind=mail to=joe@example\.org n=1 {2}uwsgi/)
  })

  it('are in the JSON', async () => {
    const [row] = await rows(
      furnished(),
      '--show',
      'to',
      '--show',
      'kind,none',
      '--vars',
      '--grep',
      '_on_old_',
    )
    assert.deepEqual(row.values, { to: 'joe@example.org', kind: 'mail', none: null })
    assert.deepEqual(row.vars, [
      ['kind', 'mail'],
      ['to', 'joe@example.org'],
      ['n', '1'],
    ])
  })

  it('cannot control a terminal, or become the prototype of an object', async () => {
    const spool = spoolDirectory()
    drop(spool, 'a', packet({ to: '\x1b[2J\tx\ny\u202e', ['__proto__']: 'p' }))
    const args = ['--show', 'to,__proto__', '--vars']
    const text = (await ls(spool, ...args)).join('\n')
    assert.ok(text.includes('\\x1b[2J\\tx\\x0ay\\u202e'))
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
    assert.doesNotMatch(text, /[\x00-\x09\x0b-\x1f\u202e]/)
    const [row] = await rows(spool, ...args)
    assert.deepEqual(Object.entries(row.values), [
      ['to', '\x1b[2J\tx\ny\u202e'],
      ['__proto__', 'p'],
    ])
  })
})

describe('ls --by', () => {
  it('counts by a key', async () => {
    const lines = await ls(furnished(), '--by', 'kind')
    assert.match(lines[0] ?? '', /^COUNT +OLDEST +BYTES +kind$/)
    assert.deepEqual(
      lines
        .slice(1)
        .map(line => line.trim().split(/ {2,}/))
        .map(([count, oldest, , kind]) => [count, oldest, kind]),
      [
        ['3', '3 h', 'mail'],
        ['2', '5 m', 'report'],
        ['1', '4 m', undefined],
      ],
    )
  })

  it('counts by a key whose name every object has, such as constructor', async () => {
    const spool = spoolDirectory()
    drop(spool, 'uwsgi_spoolfile_on_a', packet({ constructor: 'x' }))
    const [row] = await rows(spool, '--by', 'constructor')
    assert.deepEqual([row.count, row.by], [1, { constructor: 'x' }])
  })

  it('counts by several facts as JSON, in other orders, too', async () => {
    const spool = furnished()
    const found = await rows(spool, '--by', 'state,kind', '--sort', 'name')
    assert.deepEqual(
      found.map(({ by, count }) => [by.state, by.kind, count]),
      [
        ['dead', 'mail', 1],
        ['due', 'mail', 2],
        ['due', 'report', 1],
        ['waiting', '', 1],
        ['waiting', 'report', 1],
      ],
    )
    assert.equal(found[1].oldest, new Date((NOW - 9000) * 1000).toISOString())
    const [most] = await rows(spool, '--by', 'kind', '--limit', '1')
    assert.deepEqual([most.by, most.count, most.spooler], [{ kind: 'mail' }, 3, spool])
    const [oldest] = await rows(spool, '--by', 'priority', '--sort', 'age', '--reverse')
    assert.deepEqual(oldest.by, { priority: '5' })
  })

  it('counts by reason and error, which says why tasks failed', async () => {
    const spool = furnished()
    assert.deepEqual(
      (await rows(spool, '--state', 'dead', '--by', 'reason,error')).map(({ by }) => by),
      [{ reason: 'attempts', error: 'smtp: refused' }],
    )
  })

  it('tells a key from a fact of the same name, and a missing value from an empty one', async () => {
    const spool = spoolDirectory()
    drop(spool, 'a', packet({ state: 'BY' }))
    drop(spool, 'b', packet({ state: '' }))
    drop(spool, 'c', packet({}))
    const found = await rows(spool, '--by', 'key:state', '--sort', 'name')
    assert.deepEqual(
      found.map(({ by }) => by['key:state']),
      ['', 'BY', null],
    )
    assert.deepEqual((await rows(spool, '--by', 'state'))[0].by, { state: 'due' })
  })
})

describe('the flags of ls', () => {
  for (const [args, expected] of [
    [['--sort', 'size'], /--sort: expected one of run, priority, .* got "size"/],
    [['--by', 'kind', '--sort', 'due'], /--sort: expected one of count, age, bytes, name, got "due"/],
    [['--limit', '0'], /--limit: expected a whole number from 1, got "0"/],
    [['--limit', 'ten'], /--limit: expected a whole number from 1/],
    [['--by', ','], /--by: expected state, /],
    [['--show', ''], /--show: expected keys of packets: to,kind, got ""/],
    [['--match', 'kind'], /--match: expected key=pattern, got "kind"/],
    [['--newer-than', 'tomorrow'], /--newer-than: expected an age .* today, yesterday, or a date/],
    [['--newer-than', '7'], /--newer-than: expected a unit/],
    [['--by-name', '--sort', 'age'], /--by-name is the same as --sort name/],
  ] as const)
    it(`are checked: ${args.join(' ')}`, async () => {
      const { code, stderr } = await inProcess(['ls', ...args, spoolDirectory()])
      assert.match(stderr, expected)
      assert.equal(code, 64)
    })
})
