import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { type Dictionary, SpooldError, type SpoolOptions, spool, spoolSync, type Value } from '#src/index.js'
import { leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { startUwsgi, UWSGIS } from '../helpers/uwsgi.js'
import { FIXTURES, spoolDirectory, workspace } from '../helpers/workspace.js'

/** A dictionary that uWSGI was asked to spool, and the file that uWSGI made of it. */
interface Asked {
  readonly file: string
  readonly mode: string
  readonly mtime: number
  readonly asked: Readonly<Record<string, string>>
}

const ASKED: Asked[] = JSON.parse(readFileSync(join(FIXTURES, 'golden/asked.json'), 'utf8'))
const dictionaryOf = ({ asked }: Asked): Dictionary =>
  Object.entries(asked).map(
    ([key, value]) => [Buffer.from(key, 'latin1').toString(), Buffer.from(value, 'base64')] as const,
  )

/** The ways in which the library stores a task. */
const WAYS: Readonly<Record<string, (dictionary: Dictionary, options: SpoolOptions) => Promise<string>>> = {
  'spool, synced': spool,
  'spool, not synced': (dictionary, options) => spool(dictionary, { ...options, sync: false }),
  'spoolSync, synced': async (dictionary, options) => spoolSync(dictionary, options),
  'spoolSync, not synced': async (dictionary, options) => spoolSync(dictionary, { ...options, sync: false }),
}

function refusal(code: string, details: Record<string, unknown>) {
  return (error: unknown) => {
    assert.ok(error instanceof SpooldError, String(error))
    assert.equal(error.code, code)
    for (const [key, value] of Object.entries(details)) assert.deepEqual(error.details[key], value, key)
    return true
  }
}

describe('spool()', () => {
  for (const [way, store] of Object.entries(WAYS))
    it(`writes the same bytes, mode, time and directory as uWSGI for the same dictionary: ${way}`, async () => {
      const directory = workspace()
      execFileSync('tar', ['-xf', join(FIXTURES, 'golden/spool.tar'), '-C', directory])
      const ours = spoolDirectory()
      assert.ok(ASKED.length > 50)
      for (const each of ASKED) {
        const path = await store(dictionaryOf(each), { spooler: ours })
        assert.deepEqual(readFileSync(path), readFileSync(join(directory, 'spool', each.file)), each.file)
        assert.equal(`0o${(statSync(path).mode & 0o777).toString(8)}`, each.mode)
        if (each.asked.at !== undefined) assert.equal(statSync(path).mtimeMs, each.mtime * 1000)
        assert.equal(dirname(path), join(ours, dirname(each.file)))
      }
      assert.equal(leftIn(ours).length, ASKED.length, 'nothing else is left')
    })

  for (const uwsgi of UWSGIS)
    it(`writes tasks that ${uwsgi.title} runs with the same dictionary`, {
      skip: skipUnless(uwsgi.needs),
    }, async () => {
      const directory = spoolDirectory()
      for (const [i, store] of Object.values(WAYS).entries())
        for (const [n, each] of ASKED.entries())
          await store([...(dictionaryOf(each) as Array<[string, Value]>), ['which', `${i}-${n}`]], {
            spooler: directory,
          })
      const handler = `import base64, json
def spooler(env):
    journal(json.dumps({k: base64.b64encode(v if isinstance(v, bytes) else str(v).encode()).decode() for k, v in
      ((k.decode('utf8') if isinstance(k, bytes) else k, v) for k, v in env.items())}))
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler`
      startUwsgi({ uwsgi, spool: directory, handler, args: ['--spooler-ordered', '--spooler-quiet'] })
      await until('all tasks have run', () => leftIn(directory).length === 0, 60_000)
      const got = new Map<string, Record<string, string>>()
      for (const line of readFileSync(join(dirname(directory), 'journal'), 'utf8')
        .trim()
        .split('\n')) {
        const { which = '', spooler_task_name: _, ...env } = JSON.parse(line)
        got.set(Buffer.from(which, 'base64').toString(), env)
      }
      assert.equal(got.size, ASKED.length * Object.keys(WAYS).length)
      for (const [which, env] of got) {
        const asked = ASKED[Number(which.split('-')[1])]?.asked ?? {}
        const expected = Object.entries(asked).map(([key, value]) => [
          Buffer.from(key, 'latin1').toString(),
          value,
        ])
        assert.deepEqual(env, Object.fromEntries(expected), which)
      }
    })

  const VALUES: ReadonlyArray<readonly [what: string, value: Value, bytes: Buffer | string]> = [
    ['text', 'żółw', Buffer.from('żółw')],
    ['a Buffer', Buffer.from([0, 255, 10]), Buffer.from([0, 255, 10])],
    ['a view in the middle of a buffer', new Uint8Array([1, 2, 3, 4]).subarray(1, 3), Buffer.from([2, 3])],
    ['wider numbers as they are in memory', new Uint16Array([1, 0xffff]), Buffer.from([1, 0, 255, 255])],
    ['a DataView', new DataView(new Uint8Array([9, 8, 7]).buffer, 1), Buffer.from([8, 7])],
    ['an ArrayBuffer', new Uint8Array([5, 6]).buffer, Buffer.from([5, 6])],
    ['a number', -1.5, '-1.5'],
    ['a bigint', 2n ** 70n, '1180591620717411303424'],
    ['a boolean', false, 'false'],
    ['a Date', new Date(0), '1970-01-01T00:00:00.000Z'],
    ['nothing', '', ''],
  ]
  for (const [what, value, bytes] of VALUES)
    it(`turns ${what} into bytes`, async () => {
      const path = await spool({ key: value }, { spooler: spoolDirectory() })
      assert.deepEqual(readFileSync(path), packet({ key: Buffer.from(bytes) }))
    })

  const NO_VALUES: readonly unknown[] = [
    undefined,
    null,
    NaN,
    Infinity,
    {},
    [],
    () => 1,
    Symbol('s'),
    new Date(NaN),
  ]
  for (const value of NO_VALUES)
    it(`names the key whose value is ${typeof value === 'object' && value !== null ? value.constructor.name : String(value)}`, async () => {
      const directory = spoolDirectory()
      const bad = { good: 1, bad: value as Value }
      await assert.rejects(spool(bad, { spooler: directory }), { name: 'TypeError', message: /"bad"/ })
      assert.throws(() => spoolSync(bad, { spooler: directory }), { name: 'TypeError', message: /"bad"/ })
      if (value !== undefined)
        await assert.rejects(spool({}, { spooler: directory, body: value as Value }), {
          name: 'TypeError',
          message: /"body"/,
        })
      assert.deepEqual(leftIn(directory), [])
    })

  it('checks limits before anything is written, and names the key and the sizes', async () => {
    const spooler = join(workspace(), 'never-made')
    const limit = 65_535
    const cases: Array<[Dictionary, SpoolOptions, Record<string, unknown>]> = [
      [{ big: 'x'.repeat(65_536) }, {}, { key: 'big', bytes: 65_536, limit }],
      [{ ['k'.repeat(65_536)]: '' }, {}, { key: 'k'.repeat(64), bytes: 65_536, limit }],
      [{ a: 'x'.repeat(40_000), b: 'y'.repeat(40_000) }, {}, { key: '', bytes: 80_010, limit }],
      [{ '': 'x' }, {}, { key: '' }],
      [{}, { priority: 'x' }, { key: 'priority' }],
      [{}, { priority: -1 }, { key: 'priority' }],
      [{}, { priority: 1.5 }, { key: 'priority' }],
      [{ priority: '../../x' }, {}, { key: 'priority' }],
      [{}, { at: NaN }, { key: 'at' }],
      [{}, { at: new Date(NaN) }, { key: 'at' }],
      [{}, { at: 'soon' }, { key: 'at' }],
      [{ at: 'abc' }, {}, { key: 'at' }],
      [{}, { at: 'tomorrow 9' }, { key: 'at' }],
      [{ at: 'next friday 3' }, {}, { key: 'at' }],
      [{}, { at: Date.now() + 60_000 }, { key: 'at' }],
      [{ at: Date.now() }, {}, { key: 'at' }],
      [{ at: '1700000000000' }, {}, { key: 'at' }],
      [{}, { at: new Date(Date.UTC(10_000, 0)) }, { key: 'at' }],
      [{}, { id: '' }, { key: 'id' }],
    ]
    for (const [dictionary, options, details] of cases) {
      const check = refusal('REQUEST_INVALID', details)
      await assert.rejects(spool(dictionary, { ...options, spooler }), check)
      assert.throws(() => spoolSync(dictionary, { ...options, spooler }), check)
    }
    assert.deepEqual(readdirSync(dirname(spooler)), [])
    await assert.rejects(spool({ a: 1 }), refusal('REQUEST_INVALID', { key: 'spooler' }))
  })

  it('asks whether a time that is too large is in milliseconds', async () => {
    const spooler = join(workspace(), 'never-made')
    const message =
      /^at must be [^\n]*, got 1700000000000, [^\n]*are these milliseconds\? Give seconds, or a Date$/
    await assert.rejects(spool({ a: 1 }, { spooler, at: 1_700_000_000_000 }), { message })
    assert.equal(existsSync(spooler), false)
  })

  it('takes a packet that is as long as the limit', async () => {
    const value = 'x'.repeat(65_535 - 5)
    const path = await spool({ k: value }, { spooler: spoolDirectory() })
    assert.deepEqual(readFileSync(path), packet({ k: value }))
  })

  it('takes a time in every form, and writes it as the mtime and as the key at', async () => {
    const spooler = spoolDirectory()
    const ms = 1_893_456_000_000
    for (const at of [ms / 1000, new Date(ms), new Date(ms).toISOString(), String(ms / 1000)])
      for (const path of [await spool({ a: 1 }, { spooler, at }), spoolSync({ a: 1, at }, { spooler })]) {
        assert.equal(statSync(path).mtimeMs, ms)
        assert.deepEqual(readFileSync(path), packet({ a: '1', at: String(ms / 1000) }))
      }
  })

  it('lets options win over keys, and leaves the key in its position', async () => {
    const spooler = spoolDirectory()
    const path = await spool(
      { priority: 3, at: 5, body: 'no', a: 1 },
      { spooler, priority: 7, at: 1e9, body: 'yes' },
    )
    assert.equal(dirname(path), join(spooler, '7'))
    assert.deepEqual(readFileSync(path), packet({ priority: '7', at: '1000000000', a: '1' }, 'yes'))
  })

  it('keeps the order and the repeats of pairs', async () => {
    const pairs = [
      ['b', 1],
      ['1', 2],
      ['b', 3],
    ] as const
    const path = await spool(pairs, { spooler: spoolDirectory() })
    assert.equal(
      readFileSync(path).subarray(4).toString('latin1'),
      '\x01\0b\x01\x001\x01\x001\x01\x002\x01\0b\x01\x003',
    )
  })

  it('streams a body of any size, and leaves nothing when the stream breaks', async () => {
    const spooler = spoolDirectory()
    const chunk = Buffer.alloc(65_536, 'x')
    const path = await spool({ a: 1 }, { spooler, body: Readable.from(Array(64).fill(chunk)) })
    assert.equal(statSync(path).size, packet({ a: '1' }).length + 64 * 65_536)
    const broken = (async function* () {
      yield chunk
      throw new Error('the client went away')
    })()
    await assert.rejects(spool({ a: 1 }, { spooler, body: broken }), {
      code: 'ENQUEUE_FAILED',
      message: /the client went away/,
    })
    assert.deepEqual(leftIn(spooler), [path.slice(spooler.length + 1)])
    const stream = Readable.from([chunk])
    assert.throws(() => spoolSync({}, { spooler, body: stream }), { code: 'REQUEST_INVALID' })
    assert.equal(leftIn(spooler).length, 1)
  })
})

describe('the spooler of a task', () => {
  it('is the first one, or the one that the task names by any path that leads there', async () => {
    const [first, second] = [spoolDirectory(), spoolDirectory()]
    const link = join(workspace(), 'link')
    symlinkSync(second, link)
    const spooler = [first, second]
    for (const [named, expected] of [
      [undefined, first],
      ['', first],
      [first, first],
      [second, second],
      [`${second}/`, second],
      [`${first}/../../${second.split('/').slice(-2).join('/')}`, second],
      [link, second],
      [`${link}/`, second],
    ] as const) {
      const path = await spool(named === undefined ? { a: 1 } : { a: 1, spooler: named }, { spooler })
      assert.equal(dirname(path), expected, String(named))
    }
  })

  it('stays in the packet when it is a key, as in uWSGI, and does not get into it when it is an option', async () => {
    const directory = spoolDirectory()
    const named = await spool({ spooler: directory, a: 1 })
    assert.deepEqual(readFileSync(named), packet({ spooler: directory, a: '1' }))
    const path = await spool({ a: 1 }, { spooler: directory })
    assert.deepEqual(readFileSync(path), packet({ a: '1' }))
  })

  it('is refused when it is none of the allowed ones, and nothing is made', async () => {
    const allowed = spoolDirectory()
    const other = spoolDirectory()
    for (const spooler of [other, dirname(allowed), `${allowed}/7`, `${allowed}x`, '/', '.', 'a\0b'])
      await assert.rejects(
        spool({ a: 1, spooler }, { spooler: allowed }),
        refusal('SPOOLER_UNKNOWN', { key: 'spooler' }),
      )
    assert.deepEqual([...leftIn(allowed), ...leftIn(other)], [])
  })

  it('is found again after its directory was removed and made anew', async () => {
    const directory = spoolDirectory()
    await spool({ a: 1 }, { spooler: directory })
    execFileSync('rm', ['-r', directory])
    await assert.rejects(spool({ a: 1 }, { spooler: directory }), { code: 'ENQUEUE_FAILED' })
    mkdirSync(directory)
    await spool({ a: 1 }, { spooler: directory })
    assert.equal(leftIn(directory).length, 1)
  })
})
