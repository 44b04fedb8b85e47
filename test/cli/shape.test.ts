import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inProcess } from '../helpers/cli.js'
import { drop, packet } from '../helpers/files.js'
import { spoolDirectory } from '../helpers/workspace.js'

let counter = 0
/** Returns a name of uWSGI's form, which says when it was made. */
const named = (minutesAgo: number) =>
  `uwsgi_spoolfile_on_h_1_${++counter}_5_${Math.floor(Date.now() / 1000 - minutesAgo * 60)}_0`

describe('spoold shape', () => {
  it('counts tasks by the value of a key and by age, in the columns of qshape', async () => {
    const spool = spoolDirectory()
    for (const minutes of [1, 6, 6, 100]) drop(spool, named(minutes), packet({ kind: 'mail' }))
    drop(spool, named(5000), packet({ kind: 'report\x1b[2J' }))
    drop(spool, named(1), packet({ to: 'joe' }))
    const { code, stdout } = await inProcess(['shape', '--by', 'kind', spool])
    assert.equal(code, 0)
    const rows = stdout
      .trimEnd()
      .split('\n')
      .map(line => line.trim().split(/ {2,}/))
    assert.deepEqual(rows[0], [
      'MINUTES',
      'T',
      '5',
      '10',
      '20',
      '40',
      '80',
      '160',
      '320',
      '640',
      '1280',
      '1280+',
    ])
    assert.deepEqual(rows[1], ['TOTAL', '6', '2', '2', '0', '0', '0', '1', '0', '0', '0', '1'])
    assert.deepEqual(rows[2], ['mail', '4', '1', '2', '0', '0', '0', '1', '0', '0', '0', '0'])
    assert.deepEqual(
      rows.slice(3).map(row => row[1]),
      ['1', '1'],
    )
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that is the point
    assert.doesNotMatch(stdout, /\x1b/)
    const json = JSON.parse((await inProcess(['shape', '--json', '--by', 'kind', spool])).stdout)
    assert.deepEqual([json.by, json.rows[0].total, json.rows.length], ['kind', 6, 4])
  })

  it('has one row for all values beyond a thousand', async () => {
    const spool = spoolDirectory()
    for (let i = 0; i < 1100; i++) drop(spool, named(1), packet({ kind: String(i) }))
    const { rows } = JSON.parse((await inProcess(['shape', '--json', '--by', 'kind', spool])).stdout)
    assert.equal(rows.length, 1002)
    assert.deepEqual([rows[0].total, rows[1].name, rows[1].total], [1100, '(others)', 100])
  })

  it('has a row for each value, however alike long ones begin, and cuts them for people alone', async () => {
    const spool = spoolDirectory()
    const values = ['a', 'b'].map(end => `${'x'.repeat(40)}${end}`)
    for (const kind of values) drop(spool, named(1), packet({ kind }))
    const shape = async (...flags: readonly string[]) =>
      (await inProcess(['shape', ...flags, '--by', 'kind', spool])).stdout
    const { rows } = JSON.parse(await shape('--json'))
    assert.deepEqual(
      rows.map(({ name, total }: { name: string; total: number }) => [name, total]),
      [['TOTAL', 2], ...values.map(value => [value, 1])],
    )
    assert.equal((await shape()).match(/^x{29}… +1 +1 /gm)?.length, 2)
  })

  it('names a directory that does not exist', async () => {
    const { code, stderr } = await inProcess(['shape', '/no/such/spool'])
    assert.equal(code, 1)
    assert.match(stderr, /\[SPOOL_UNUSABLE\] \/no\/such\/spool does not exist; name a spool directory/)
  })
})
