import assert from 'node:assert/strict'
import { symlinkSync } from 'node:fs'
import { describe, it } from 'node:test'
import { effectiveSettings, effectiveSpools } from '#src/formats/config/effective.js'
import { OPTION_TABLE, type OptionSpec } from '#src/formats/config/option-table.js'
import { originOf, resolveOptions } from '#src/formats/config/options.js'
import { keyOf } from '#src/formats/config/spools.js'
import { formatProblem, formatWhere } from '#src/formats/ini/setting.js'
import { checkGiven, readGiven } from '../ini/reading.js'

const APP = `[uwsgi]
spooler = one
include = more.ini
spooler-processes = 3
spooler-processes = 4
spooler-frequency = 1m
spooler-exec = true
`
const MORE = '[uwsgi]\nspooler-external = two\nspooler = one\nspooler-max-crashes = 5\nspooler-exec = false\n'
const GIVEN = {
  files: { 'app.ini': APP, 'more.ini': MORE },
  argv: ['--ini', 'app.ini', '--spooler-max-crashes', '6'],
  env: { UWSGI_SPOOLER_GRACE: '90s' },
}

describe('the spools of a configuration', () => {
  it('are listed in their order, as often as they are named, each with where it was written', () => {
    const { spools } = resolveOptions(readGiven(GIVEN))
    assert.deepEqual(
      spools.map(({ directory, isExternal, where }) => [directory, isExternal, formatWhere(where)]),
      [
        ['one', false, 'app.ini:2'],
        ['two', true, 'more.ini:2'],
        ['one', false, 'more.ini:3'],
      ],
    )
  })

  it('have one value and one origin for each option', () => {
    for (const spool of resolveOptions(readGiven(GIVEN)).spools) {
      const { spoolerProcesses, spoolerFrequencyMs, spoolerMaxCrashes, spoolerGraceMs } = spool.options
      assert.deepEqual([spoolerProcesses, spoolerFrequencyMs], [4, 60_000])
      assert.deepEqual([spoolerMaxCrashes, spoolerGraceMs], [6, 90_000])
      const origin = (name: string) => formatWhere(originOf(spool, name))
      assert.equal(origin('spooler-processes'), 'app.ini:5')
      assert.equal(origin('spooler-max-crashes'), 'command line')
      assert.equal(origin('spooler-grace'), 'environment UWSGI_SPOOLER_GRACE')
      assert.equal(origin('spooler-backoff'), 'configuration')
    }
  })

  it('are none, with an error, when the value is empty', () => {
    const { spools, problems } = checkGiven({ files: { 'app.ini': '[uwsgi]\nspooler =\n' } })
    assert.deepEqual(spools, [])
    assert.match(
      problems.errors.map(({ message }) => message).join('\n'),
      /spooler: expected DIR, got nothing/,
    )
  })
})

describe('a spool with options of its own', () => {
  const HANDLERS = { 'all.mjs': '', 'own.mjs': '', 'own.py': '' }
  const resolve = (lines: string) => {
    const text = `[uwsgi]\nspooler-import = all.mjs\n${lines}\n`
    const { spools, problems, anySpool } = checkGiven({ files: { 'app.ini': text, ...HANDLERS } })
    return { spools, anySpool, list: problems.list.map(formatProblem) }
  }

  it('has its own options and the others of the configuration, each with where it was written', () => {
    const { spools, anySpool, list } = resolve(
      'spooler-harakiri = 9\nspooler2 = dir=mail,processes=4,spooler-freq=1m,ordered=age,quiet,sync=off\n' +
        'spooler-processes = 2\nspooler = other\nspooler-max-attempts = 7',
    )
    assert.deepEqual(list, [])
    const [mail, other] = spools
    assert.ok(mail !== undefined && other !== undefined)
    const { options } = mail
    assert.deepEqual([mail.directory, formatWhere(mail.where), mail.isExternal], ['mail', 'app.ini:4', false])
    assert.deepEqual([options.spoolerProcesses, options.spoolerFrequencyMs], [4, 60_000])
    assert.deepEqual(
      [options.spoolerOrdered, options.spoolerQuiet, options.spoolerSync],
      ['age', true, false],
    )
    assert.deepEqual([options.spoolerHarakiriMs, options.spoolerMaxAttempts], [9000, 7])
    assert.deepEqual(other.options, anySpool.options)
    assert.deepEqual([other.options.spoolerProcesses, other.options.spoolerQuiet], [2, false])
    const origin = (name: string) => formatWhere(originOf(mail, name))
    assert.equal(origin('spooler-processes'), 'app.ini:4')
    assert.equal(origin('spooler-harakiri'), 'app.ini:3')
    assert.equal(origin('spooler-max-attempts'), 'app.ini:7')
  })

  it('is one spool, in the place where its directory is named first, however often it is named', () => {
    const { spools } = resolve(
      'spooler-external = mail\nspooler = other\nspooler2 = dir=./mail/,processes=4\nspooler = mail',
    )
    assert.deepEqual(
      spools.map(({ directory, isExternal, options }) => [directory, isExternal, options.spoolerProcesses]),
      [
        ['./mail/', false, 4],
        ['other', false, 1],
      ],
    )
  })

  it('is found through links', () => {
    const files = { 'app.ini': '[uwsgi]\nspooler = link/mail\nspooler2 = dir=real/mail\n', 'real/x': '' }
    const config = readGiven({ files })
    symlinkSync('real', 'link')
    assert.deepEqual(
      resolveOptions(config).spools.map(({ directory }) => directory),
      ['real/mail'],
    )
  })

  it('takes placeholders, and is external if its line says so', () => {
    const { spools } = resolve('root = /srv\nspooler = own\nspooler2 = dir=%(root),sync=0,external')
    assert.deepEqual(
      spools.map(({ directory, isExternal, options }) => [directory, isExternal, options.spoolerSync]),
      [
        ['own', false, true],
        ['/srv', true, false],
      ],
    )
  })

  it('has only its own handlers, in their order, if it has any', () => {
    const [plain, own, asAll] = resolve(
      'module = app\nspooler = plain\nspooler2 = dir=own,exec=a\\,b,import=own.py,import=own.mjs,exec-input=packet\n' +
        'spooler2 = dir=third,exec-input=packet',
    ).spools
    assert.ok(plain !== undefined && own !== undefined && asAll !== undefined)
    assert.deepEqual(plain.handlers, [['spooler-import', 'all.mjs']])
    assert.deepEqual(own.handlers, [
      ['spooler-exec', 'a,b'],
      ['spooler-import', 'own.py'],
      ['spooler-import', 'own.mjs'],
    ])
    assert.deepEqual(
      [plain, own, asAll].map(({ options }) => options.module),
      ['app', null, 'app'],
    )
    assert.deepEqual(asAll.handlers, plain.handlers)
    assert.equal(asAll.options.spoolerExecInput, 'packet')
  })

  it('may have every option of a spool except two, under the key that the docs give', () => {
    const specs = OPTION_TABLE.filter((spec: OptionSpec) => spec.perSpool)
    const keys = new Map(specs.map(spec => [spec.name as string, keyOf(spec)]))
    const without = [...keys].filter(([, key]) => key === undefined).map(([name]) => name)
    assert.deepEqual(without.sort(), ['import', 'ini-paste'])
    assert.deepEqual(
      [keys.get('spooler-import'), keys.get('worker-reload-mercy')],
      ['import', 'worker-reload-mercy'],
    )
    for (const [name, key] of keys) {
      if (key === undefined) continue
      const spec = specs.find(each => each.name === name) as OptionSpec
      const value = spec.kind === 'text' ? 'x' : spec.kind === 'choice' ? spec.choices?.[0] : '1'
      const [spool] = resolve(`spooler2 = dir=mail,${key}=${value}`).spools
      assert.deepEqual([...(spool?.ownKeys ?? [])], [[name, key]])
    }
  })

  it('may come from the command line and the environment', () => {
    const argv = ['--spooler2', 'dir=a,processes=2']
    const { spools } = checkGiven({ argv, env: { UWSGI_SPOOLER2: 'dir=b', SPOOLD_SPOOLER2: 'dir=c,cheap' } })
    const shown = spools.map(({ directory, where }) => `${directory} ${formatWhere(where)}`)
    assert.deepEqual(shown, [
      'b environment UWSGI_SPOOLER2',
      'c environment SPOOLD_SPOOLER2',
      'a command line',
    ])
  })

  const FAULTS: Readonly<Record<string, RegExp>> = {
    'spooler2 = processes=4': /^app.ini:3: error: spooler2: expected dir=DIR,…, got "processes=4"/,
    'spooler2 =': /^app.ini:3: error: spooler2: expected dir=DIR,…/,
    'spooler2 = dir=,processes=4': /^app.ini:3: error: spooler2: dir: expected DIR, got nothing/,
    'spooler2 = dir=~/mail': /^app.ini:3: warning: spooler2: dir: .*~ is not expanded/,
    'spooler2 = dir=no/where': /^app.ini:3: error: spooler2: dir: no\/where cannot be made/,
    'spooler2 = mail,processes=4':
      /^app.ini:3: error: spooler2: expected KEY=VALUE, got "mail"; a directory is written dir=mail/,
    'spooler2 = dir=mail,process=4':
      /^app.ini:3: error: spooler2: unknown key "process"; did you mean "processes"\?/,
    'spooler2 = dir=mail,order': /^app.ini:3: error: spooler2: unknown key "order"; did you mean "ordered"\?/,
    'spooler2 = dir=mail,processes': /^app.ini:3: error: spooler2: expected processes=VALUE/,
    'spooler2 = dir=mail,processes=many': /^app.ini:3: error: spooler2: processes: expected a whole number/,
    'spooler2 = dir=mail,processes=2000': /^app.ini:3: error: spooler2: processes: expected at most 1024/,
    'spooler2 = dir=mail,concurrency=0': /^app.ini:3: error: spooler2: concurrency: expected at least 1/,
    'spooler2 = dir=mail,backoff=slow':
      /^app.ini:3: error: spooler2: backoff: expected none, fixed or exponential/,
    'spooler2 = dir=mail,chdir=/no/where': /^app.ini:3: error: spooler2: chdir: expected a directory/,
    'spooler2 = dir=mail,import=none.mjs': /^app.ini:3: error: spooler2: import: .*none.mjs cannot be read/,
    'spooler2 = dir=mail,psgi=none.psgi': /^app.ini:3: error: spooler2: psgi: .*none.psgi cannot be read/,
    'spooler2 = dir=mail, processes=4':
      /^app.ini:3: error: spooler2: blanks count here, so write "processes"/,
    'spooler2 = dir=mail ,processes=4': /^app.ini:3: error: spooler2: dir: blanks count here/,
    'spooler2 = dir=mail,uid=nobody': /^app.ini:3: error: spooler2: uid is an option of the daemon/,
    'spooler2 = dir=mail,ini-paste=x.ini':
      /^app.ini:3: error: spooler2: ini-paste cannot be .*write paste=config:FILE/,
    'spooler2 = dir=mail,processes=2,processes=3': /^app.ini:3: warning: spooler2: processes is given again/,
    'spooler2 = dir=mail\nspooler2 = dir=mail,processes=2':
      /^app.ini:4: error: spooler2: mail has its options at app.ini:3/,
  }
  for (const [lines, message] of Object.entries(FAULTS))
    it(`is refused, or warned about: ${lines.replace('\n', ', ')}`, () => {
      const { list } = resolve(lines)
      assert.match(list[0] ?? '', message)
    })

  it('needs a handler when only another spool has one', () => {
    const files = {
      'app.ini': '[uwsgi]\nspooler2 = dir=a,import=own.mjs\nspooler2 = dir=b\nspooler = c\n',
      ...HANDLERS,
    }
    const { problems } = checkGiven({ files })
    assert.deepEqual(
      problems.errors.map(({ where, message }) => `${formatWhere(where)} ${message.slice(0, 22)}`),
      ['app.ini:3 b: there is no handler', 'app.ini:4 c: there is no handler'],
    )
  })
})

describe('the effective settings', () => {
  const effective = () => {
    const resolved = resolveOptions(readGiven(GIVEN))
    return [...effectiveSpools(resolved), ...effectiveSettings(resolved)]
  }

  it('have each value with its origin, in the unit of its option', () => {
    const of = (name: string) =>
      effective()
        .filter(({ option }) => option === name)
        .map(({ value, where }) => `${value} (${where === undefined ? 'default' : formatWhere(where)})`)
    assert.deepEqual(of('spooler'), ['one (app.ini:2)', 'one (more.ini:3)'])
    assert.deepEqual(of('spooler-external'), ['two (more.ini:2)'])
    assert.deepEqual(of('spooler-frequency'), ['60 (app.ini:6)'])
    assert.deepEqual(of('spooler-max-crashes'), ['6 (command line)'])
    assert.deepEqual(of('spooler-backoff'), ['fixed (default)'])
    assert.deepEqual(of('spooler-exec'), ['false (more.ini:5)', 'true (app.ini:7)'])
    assert.deepEqual(of('umask'), [])
  })

  it('omit what has no value', () => {
    assert.deepEqual(
      effective().filter(({ value }) => value === 'null' || value === 'undefined'),
      [],
    )
  })
})
