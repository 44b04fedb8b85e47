import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { inProcess } from '../helpers/cli.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

/** Returns two spools that an ini names, with a task in each place. */
function configured() {
  const [one, two] = [spoolDirectory(), spoolDirectory()]
  for (const place of ['5', '.spoold/dead', '.spoold/dead/7'])
    mkdirSync(join(two, place), { recursive: true, mode: 0o700 })
  drop(one, 'first', packet({ to: 'joe' }))
  drop(two, '5/urgent', packet({ to: 'jim' }))
  drop(two, '.spoold/dead/died', packet({ to: 'jane' }))
  drop(two, '.spoold/dead/7/buried', packet({ to: 'jack' }))
  const ini = join(workspace(), 'app.ini')
  writeFileSync(
    ini,
    `[uwsgi]\nspooler = ${one}\nspooler = ${two}\nspooler = ${one}\nspooler-processes = many\n`,
  )
  return { one, two, ini }
}

describe('--ini', () => {
  it('lists the spools of a configuration, each once, whatever else is wrong in it', async () => {
    const { one, two, ini } = configured()
    const { stdout, code } = await inProcess(['ls', '--json', '--ini', ini])
    const found = stdout
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line))
    assert.equal(code, 0)
    assert.deepEqual(
      found.map(({ spooler, name }) => [spooler, name]),
      [
        [one, 'first'],
        [two, '5/urgent'],
        [two, '.spoold/dead/7/buried'],
        [two, '.spoold/dead/died'],
      ],
    )
  })

  for (const [name, to] of [
    ['first', 'joe'],
    ['urgent', 'jim'],
    ['died', 'jane'],
    ['buried', 'jack'],
  ])
    it(`finds a bare name wherever the task is: ${name}`, async () => {
      const { stdout, code } = await inProcess(['show', '--json', '--ini', configured().ini, name ?? ''])
      assert.deepEqual([JSON.parse(stdout).vars, code], [[['to', to]], 0])
    })

  it('shows several tasks, and says which of the names do not exist', async () => {
    const { ini, one, two } = configured()
    const { stdout, stderr, code } = await inProcess(['show', '--ini', ini, 'first', 'gone', 'died'])
    const shown = stdout.split('\n').filter(line => !line.startsWith(' '))
    assert.deepEqual(
      shown.map(line => line.split(': ', 1)[0]),
      [`${one}/first`, `${two}/.spoold/dead/died`, ''],
    )
    assert.match(
      stderr,
      /^spoold: \S+app\.ini:5: error: spooler-processes: .*\nspoold: \[FILE_UNREADABLE\] gone does not exist: done or unknown\n$/,
    )
    assert.equal(code, 1)
  })

  it('works for the commands that change tasks, too', async () => {
    const { one, two, ini } = configured()
    assert.equal((await inProcess(['hold', '--ini', ini, 'urgent'])).stdout, `held ${two}/5/urgent\n`)
    assert.equal((await inProcess(['release', '--all', '--ini', ini])).stdout, `released ${two}/5/urgent\n`)
    assert.equal((await inProcess(['rm', '--ini', ini, 'first'])).stdout, `removed ${one}/first\n`)
    assert.equal((await inProcess(['requeue', '--ini', ini, 'died'])).code, 0)
    assert.deepEqual([leftIn(one), leftIn(two)], [[], ['5/urgent', 'died']])
    assert.match(
      (await inProcess(['purge', '--all', '--ini', ini])).stdout,
      /removed 0 .*\n.*removed 1 dead letter\n/,
    )
    const all = await inProcess(['rm', '--ini', ini])
    assert.deepEqual([all.code, /which tasks in .*\? Use filters, or --all/.test(all.stderr)], [64, true])
  })

  it('changes nothing if several tasks have the name', async () => {
    const { one, two, ini } = configured()
    drop(two, 'first')
    const { code, stderr } = await inProcess(['rm', '--ini', ini, 'first'])
    assert.equal(code, 64)
    assert.ok(
      stderr.includes(`several tasks have this name: ${one}/first, ${two}/first; give the path of one`),
    )
    assert.deepEqual([leftIn(one), leftIn(two)], [['first'], ['5/urgent', 'first']])
  })

  it('requires a configuration that names a spool', async () => {
    const ini = join(workspace(), 'app.ini')
    writeFileSync(ini, '[uwsgi]\nspooler-processes = 2\n')
    const { code, stderr } = await inProcess(['ls', '--ini', ini])
    assert.match(stderr, /app\.ini names no spooler; add spooler = DIR/)
    assert.notEqual(code, 0)
    const missing = await inProcess(['ls', '--ini', '/nonexistent/app.ini'])
    assert.match(missing.stderr, /app\.ini names no spooler: .* cannot be read: ENOENT[^;]*\n$/)
  })
})
