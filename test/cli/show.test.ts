import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { encodePacket } from '#src/formats/protocol/packet.js'
import { inProcess, spoold } from '../helpers/cli.js'
import { drop, packet } from '../helpers/files.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

async function show(path: string): Promise<string> {
  const { code, stdout, stderr } = await spoold(['show', path])
  assert.equal(stderr, '')
  assert.equal(code, 0)
  return stdout
}

async function showJson(path: string) {
  const { code, stdout } = await inProcess(['show', '--json', path])
  assert.equal(code, 0)
  return JSON.parse(stdout)
}

const LATIN1 = Buffer.from([0x66, 0xfc, 0x72])

describe('spoold show', () => {
  it('decodes a packet for people', async () => {
    const path = drop(spoolDirectory(), 'a', packet({ to: 'joe', said: 'a "b"\n' }, 'BODY'), 1_700_000_000)
    assert.equal(
      await show(path),
      `${path}: due, due 2023-11-14T22:13:20.000Z, arrived 2023-11-14T22:13:20.000Z, 31 bytes\n  "to" = "joe"\n  "said" = "a \\"b\\"\\n"\n  body: "BODY" (4 bytes)\n`,
    )
  })

  it('decodes a packet for programs, with the pairs in their order', async () => {
    const pairs = [
      ['b', '1'],
      ['a', ''],
      ['b', '2'],
    ].map(([key = '', value = '']) => [Buffer.from(key), Buffer.from(value)] as const)
    const path = drop(spoolDirectory(), 'a', encodePacket(pairs), 1_700_000_000)
    assert.deepEqual(await showJson(path), {
      file: path,
      state: 'due',
      due: '2023-11-14T22:13:20.000Z',
      arrived: '2023-11-14T22:13:20.000Z',
      mtime: '2023-11-14T22:13:20.000Z',
      bytes: 21,
      mark: 0,
      vars: [
        ['b', '1'],
        ['a', ''],
        ['b', '2'],
      ],
      bodyBytes: 0,
      bodyOffset: 21,
    })
  })

  it('shows keys that JavaScript objects already have, such as __proto__', async () => {
    const path = drop(spoolDirectory(), 'a', packet({ ['__proto__']: 'p', constructor: 'c' }))
    assert.deepEqual((await showJson(path)).vars, [
      ['__proto__', 'p'],
      ['constructor', 'c'],
    ])
    assert.match(await show(path), /"__proto__" = "p"\n {2}"constructor" = "c"/)
  })

  it('shows what is not UTF-8 as base64, byte for byte', async () => {
    const every = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
    const pairs = [
      [Buffer.from('latin1'), LATIN1],
      [LATIN1, Buffer.from('value')],
    ] as const
    const path = drop(spoolDirectory(), 'a', Buffer.concat([encodePacket(pairs), every]))
    const { vars, body } = await showJson(path)
    const base64 = { base64: LATIN1.toString('base64') }
    assert.deepEqual(vars, [
      ['latin1', base64],
      [base64, 'value'],
    ])
    assert.deepEqual(Buffer.from(body.base64, 'base64'), every)
    assert.match(await show(path), /"latin1" = base64 Zvxy\n {2}base64 Zvxy = "value"\n {2}body: base64 AAEC/)
  })

  it('cuts huge values for people, and not for programs', async () => {
    const value = 'é'.repeat(30_000)
    const path = drop(spoolDirectory(), 'a', packet({ value }, 'x'.repeat(1000)))
    const text = await show(path)
    assert.match(text, /… \(60000 bytes\)/)
    assert.match(text, /… \(1000 bytes\)\n/)
    assert.ok(text.length < 1000)
    const json = await showJson(path)
    assert.deepEqual(json.vars, [['value', value]])
    assert.equal(json.body, 'x'.repeat(1000))
  })

  it('cuts no escape of a huge value', async () => {
    for (const blanks of ['', ' ', '  ', '   ']) {
      const path = drop(spoolDirectory(), 'a', packet({ value: `${blanks}${'\x7f'.repeat(100)}` }))
      assert.match(await show(path), /"value" = " {0,3}(\\x7f)+… \(\d+ bytes\)/)
    }
  })

  it('shows several tasks, and says which of them it could not show', async () => {
    const spool = spoolDirectory()
    const paths = ['a', 'b', 'c'].map(name => drop(spool, name, packet({ name })))
    const { code, stdout, stderr } = await inProcess(['show', ...paths, join(spool, 'd')])
    assert.equal(code, 1)
    assert.deepEqual(
      [...stdout.matchAll(/"name" = "(.)"/g)].map(([, name]) => name),
      ['a', 'b', 'c'],
    )
    assert.equal(stderr, `spoold: [FILE_UNREADABLE] ${spool}/d does not exist: done or unknown\n`)
    assert.equal((await inProcess(['show', ...paths])).code, 0)
  })

  it('finds a task by the id that its caller gave, and a named task by its UUID', async () => {
    const spool = spoolDirectory()
    const id = '3f1b9f6e-7c0a-4d5b-9d3e-0c1f2a3b4c5d'
    drop(spool, 'a', packet({ task: 'send-mail', args: '[]', id }))
    await inProcess(['enqueue', '--spooler', spool, '--id', 'order-7', 'to=joe'])
    const [named, given] = [
      await inProcess(['show', join(spool, id)]),
      await inProcess(['show', join(spool, 'order-7')]),
    ]
    assert.match(named.stdout, /"task" = "send-mail"/)
    assert.match(given.stdout, /"to" = "joe"/)
    const paths = readdirSync(spool)
      .filter(name => !name.startsWith('.'))
      .map(name => join(spool, name))
    assert.equal((await inProcess(['rm', ...paths])).code, 0)
    for (const gone of [id, 'order-7']) {
      const { code, stderr } = await inProcess(['show', join(spool, gone)])
      assert.equal(code, 1)
      assert.equal(stderr, `spoold: [FILE_UNREADABLE] ${spool}/${gone} does not exist: done or unknown\n`)
    }
  })

  it('finds a task by its name alone, as log lines have it, and so do all other commands', async () => {
    const spool = spoolDirectory()
    for (const below of ['7', '.spoold/dead/8'])
      mkdirSync(join(spool, below), { recursive: true, mode: 0o700 })
    drop(spool, '7/urgent')
    drop(spool, '.spoold/dead/died')
    drop(spool, '.spoold/dead/gone')
    drop(spool, '.spoold/dead/8/gone')
    const said = async (...args: string[]) => {
      const { code, stdout, stderr } = await inProcess(args)
      return [code, stdout + stderr] as const
    }
    assert.match((await said('show', join(spool, 'urgent')))[1], new RegExp(`^${spool}/7/urgent: due`))
    assert.deepEqual(await said('hold', join(spool, 'urgent')), [0, `held ${spool}/7/urgent\n`])
    assert.deepEqual(await said('requeue', join(spool, 'died')), [
      0,
      `requeued ${spool}/.spoold/dead/died to ${spool}/died\n`,
    ])
    const both = `several tasks have this name: ${spool}/.spoold/dead/gone, ${spool}/.spoold/dead/8/gone`
    const [code, text] = await said('rm', join(spool, 'gone'))
    assert.deepEqual([code, text.includes(both)], [64, true], text)
    const [shown, held] = await Promise.all(
      ['show', 'hold'].map(each => inProcess([each, join(spool, 'nowhere')])),
    )
    assert.match(shown?.stderr ?? '', /nowhere does not exist: done or unknown\n$/)
    assert.match(held?.stderr ?? '', /nowhere does not exist\n$/)
  })

  it('reports thousands of missing tasks without listing the spool for each', async () => {
    const spool = spoolDirectory()
    for (let i = 0; i < 5000; i++) writeFileSync(join(spool, `there-${i}`), '')
    const gone = Array.from({ length: 10_000 }, (_, i) => join(spool, `gone-${i}`))
    const { code, stderr } = await inProcess(['show', ...gone]) // is ended after half a minute
    assert.equal(code, 1)
    assert.equal(stderr.split('\n').length - 1, gone.length)
  })

  it('says where a body starts that is too large to be shown', async () => {
    const path = drop(spoolDirectory(), 'a', packet({ a: 'b' }, Buffer.alloc(2 ** 20 + 1)))
    const { bodyBytes, bodyOffset, body } = await showJson(path)
    assert.deepEqual(
      { bodyBytes, bodyOffset, body },
      { bodyBytes: 2 ** 20 + 1, bodyOffset: 10, body: undefined },
    )
    assert.match(await show(path), /body: 1048577 bytes, from byte 10/)
  })

  it('shows the last possible date for a time that is too far ahead', async () => {
    const path = drop(spoolDirectory(), 'a', packet({ at: '99999999999999999999' }))
    assert.match(await show(path), /waiting, due 9999-12-31T23:59:59.000Z/)
    assert.equal((await showJson(path)).due, '9999-12-31T23:59:59.000Z')
  })

  it('prints no control character of a name, a key, a value or a body', async () => {
    const path = drop(spoolDirectory(), 'a\x1b[2J', packet({ 'k\x1b[2J': 'v\x9b2J' }, '\x1b[2J'))
    assert.doesNotMatch((await show(path)).replaceAll('\n', ''), /\p{Cc}/u)
  })

  it('refuses a symbolic link, and says so', async () => {
    const directory = workspace()
    writeFileSync(join(directory, 'file'), packet({ a: 'b' }))
    symlinkSync('file', join(directory, 'link'))
    const { code, stderr } = await inProcess(['show', join(directory, 'link')])
    assert.equal(code, 1)
    assert.match(
      stderr,
      /^spoold: \[FILE_UNREADABLE\] .*link cannot be read: it is a symbolic link, which is never run\n$/,
    )
  })

  for (const [what, bytes, expected] of [
    ['a short header', '\x11\x00', /incomplete\): it has 2 of the header's 4 bytes/],
    [
      'a short block',
      Buffer.from([17, 9, 0, 0, 1, 0]),
      /incomplete\): its header announces 9 bytes, 2 are there/,
    ],
    ['a wrong block', Buffer.from([17, 2, 0, 0, 9, 9]), /malformed\): /],
  ] as const)
    it(`says why ${what} is no packet`, async () => {
      const { code, stdout, stderr } = await inProcess(['show', drop(spoolDirectory(), 'a', bytes)])
      assert.deepEqual({ code, stdout }, { code: 1, stdout: '' })
      assert.match(stderr, /^spoold: [^\n]+ is not a spool packet \([^\n]+\n$/)
      assert.match(stderr, expected)
    })
})
