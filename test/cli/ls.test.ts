import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdirSync, renameSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { inProcess } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { patience, until } from '../helpers/until.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

async function ls(...args: string[]): Promise<string[]> {
  const { code, stdout, stderr } = await inProcess(['ls', ...args])
  assert.equal(stderr, '')
  assert.equal(code, 0)
  return stdout.trimEnd().split('\n')
}

/** Returns the cells of a line, split at two spaces or more. */
const cells = (line = '') => line.trim().split(/ {2,}/)

const nowSeconds = () => Math.floor(Date.now() / 1000)

describe('spoold ls', () => {
  it('lists state, priority, due in, age, size and name, in the order in which tasks will start', async () => {
    const spool = spoolDirectory()
    const now = nowSeconds()
    for (const priority of ['10', '9']) mkdirSync(join(spool, priority))
    drop(spool, 'uwsgi_spoolfile_on_b', packet({ a: 'b' }), now - 300)
    drop(spool, '10/uwsgi_spoolfile_on_c', packet({ a: 'b' }, 'BODY'), now - 7300)
    drop(spool, '9/uwsgi_spoolfile_on_d', packet({ a: 'b' }), now + 10_000)
    drop(spool, 'uwsgi_spoolfile_on_at', packet({ at: String(now + 300) }), now - 10)
    drop(spool, 'x.tmp', 'not a task')
    const [header, ...rows] = await ls(spool)
    assert.deepEqual(cells(header), ['STATE', 'PRIORITY', 'DUE IN', 'AGE', 'BYTES', 'FAILED', 'NAME', 'NOTE'])
    assert.deepEqual(
      rows.map(row => cells(row).map(cell => cell.replace(/^\d+ s$/, 'N s'))),
      [
        ['due', '10', 'now', '2 h', '14', '10/uwsgi_spoolfile_on_c'],
        ['due', 'now', '5 m', '10', 'uwsgi_spoolfile_on_b'],
        ['waiting', '5 m', 'N s', '20', 'uwsgi_spoolfile_on_at'],
        ['waiting', '9', '3 h', 'N s', '10', '9/uwsgi_spoolfile_on_d'],
      ],
    )
  })

  it('prints one JSON object per line with --json', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '3'))
    drop(spool, '3/t', packet({ a: 'b' }), 1_700_000_000)
    drop(spool, 'u', packet({ at: '99999999999999999999' }), 1_700_000_000)
    const lines = await ls('--json', spool)
    assert.deepEqual(
      lines.map(line => JSON.parse(line)),
      [
        {
          state: 'due',
          spooler: spool,
          name: '3/t',
          priority: 3,
          due: '2023-11-14T22:13:20.000Z',
          arrived: '2023-11-14T22:13:20.000Z',
          mtime: '2023-11-14T22:13:20.000Z',
          bytes: 10,
        },
        {
          state: 'waiting',
          spooler: spool,
          name: 'u',
          priority: null,
          due: '9999-12-31T23:59:59.000Z',
          arrived: '2023-11-14T22:13:20.000Z',
          mtime: '2023-11-14T22:13:20.000Z',
          bytes: 30,
        },
      ],
    )
  })

  it('lists files that cannot run as incomplete or malformed, and says why', async () => {
    const spool = spoolDirectory()
    drop(spool, 'a-empty', '')
    drop(spool, 'b-short', Buffer.from([17, 9, 0, 0, 1, 0]))
    drop(spool, 'c-text', 'hello')
    drop(spool, 'd-wrong', Buffer.from([17, 2, 0, 0, 9, 9]))
    symlinkSync('c-text', join(spool, 'e-link'))
    const found = (await ls('--json', spool)).map(line => JSON.parse(line))
    assert.deepEqual(
      found.map(({ name, state }) => [name, state]),
      [
        ['a-empty', 'incomplete'],
        ['b-short', 'incomplete'],
        ['c-text', 'malformed'],
        ['d-wrong', 'malformed'],
      ],
    )
    for (const { detail } of found) assert.ok(detail.length > 0)
  })

  it('lists a running task as running', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: `export default async (env, task) => {
        JOURNAL(task.name)
        if (env.wait) await new Promise(resolve => process.once('SIGUSR2', resolve))
        return task.SPOOL_OK
      }`,
    })
    drop(spool, 'runs', packet({ wait: '1' }))
    await until('the task runs', () => daemon.journal().includes('runs'))
    const [line = ''] = await ls('--json', spool)
    assert.equal(JSON.parse(line).state, 'running')
    for (const pid of daemon.workers()) process.kill(pid, 'SIGUSR2')
    await until('the task is done', () => leftIn(spool).length === 0)
  })

  it('prints names that are not UTF-8 escaped for people, and as base64 in JSON', async () => {
    const spool = spoolDirectory()
    const name = Buffer.from([0x7a, 0xff, 0x0a, 0x1b])
    renameSync(drop(spool, 'z'), Buffer.concat([Buffer.from(`${spool}/`), name]))
    drop(spool, 'a\nb', packet({}))
    drop(spool, 'ключ', packet({}))
    const lines = await ls('--json', '--by-name', spool)
    assert.deepEqual(
      lines.map(line => JSON.parse(line).name),
      ['a\nb', { base64: name.toString('base64') }, 'ключ'],
    )
    const [, ...rows] = await ls('--by-name', spool)
    assert.deepEqual(
      rows.map(row => cells(row).at(-1)),
      ['a\\x0ab', 'z\\xff\\x0a\\x1b', 'ключ'],
    )
  })

  it('lists several spools, each under its name', async () => {
    const [one, two] = [spoolDirectory(), spoolDirectory()]
    drop(one, 'a')
    drop(two, 'b')
    const lines = await ls(one, two)
    assert.deepEqual(
      lines.map(line => (line.includes('STATE') ? 'HEADER' : cells(line).at(-1))),
      [`${one}:`, 'HEADER', 'a', '', `${two}:`, 'HEADER', 'b'],
    )
    const json = (await ls('--json', one, two)).map(line => JSON.parse(line))
    assert.deepEqual(
      json.map(({ spooler, name }) => [spooler, name]),
      [
        [one, 'a'],
        [two, 'b'],
      ],
    )
  })

  it('prints only the header for an empty spool, and nothing as JSON', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '.spoold'))
    writeFileSync(join(spool, '.spoold', 'ours'), '')
    assert.deepEqual(cells((await ls(spool)).join('\n'))[0], 'STATE')
    assert.deepEqual(await ls('--json', spool), [''])
  })

  it('does not count as a run of the tasks that it lists', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, 'a')
    utimesSync(path, 1_700_000_000, 1_700_000_001) // never read: what marks the start of a run
    await ls(spool)
    await inProcess(['show', path])
    await ls(spool)
    const daemon = await startDaemon({
      spool,
      handler: `export default (env, task) => { JOURNAL(task.name + task.attempt); return task.SPOOL_OK }`,
    })
    await until('the task has run', () => daemon.journal().length > 0)
    assert.deepEqual(daemon.journal(), ['a1'])
  })

  it('ends quietly when its reader closes the pipe early', async () => {
    const spool = spoolDirectory()
    for (let i = 0; i < 3000; i++) writeFileSync(join(spool, `task-${i}-${'x'.repeat(100)}`), packet({}))
    const child = spawn(process.execPath, [BIN, 'ls', '--json', spool], { timeout: 20_000 * patience() })
    let stderr = ''
    child.stderr.on('data', chunk => (stderr += chunk))
    child.stdout.once('data', () => child.stdout.destroy())
    const code = await new Promise(resolve => child.once('close', resolve))
    assert.equal(stderr, '')
    assert.equal(code, 0)
  })
})
