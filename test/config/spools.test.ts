import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { effectiveSettings } from '#src/config/effective.js'
import { originOf, resolveOptions } from '#src/config/options.js'
import { formatWhere } from '#src/ini/setting.js'
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
  it('are in their order, as often as they are named, each with where it was written', () => {
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

  it('are none of what is empty, which is an error', () => {
    const { spools, problems } = checkGiven({ files: { 'app.ini': '[uwsgi]\nspooler =\n' } })
    assert.deepEqual(spools, [])
    assert.match(
      problems.errors.map(({ message }) => message).join('\n'),
      /spooler: expected DIR, got nothing/,
    )
  })
})

describe('the effective settings', () => {
  const effective = () => {
    const config = readGiven(GIVEN)
    return [...effectiveSettings(config, resolveOptions(config))]
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

  it('say nothing of what has no value', () => {
    assert.deepEqual(
      effective().filter(({ value }) => value === 'null' || value === 'undefined'),
      [],
    )
  })
})
