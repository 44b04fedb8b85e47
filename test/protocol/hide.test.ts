import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { HEADER_BYTES } from '#src/formats/protocol/header.js'
import { Hide } from '#src/formats/protocol/hide.js'
import { parseVars, toPairs, type Vars } from '#src/formats/protocol/vars.js'
import { packet } from '../helpers/files.js'

const SECRET = 's3cr3t'
const hide = new Hide(['password', 'token', 'api.key'])

function varsOf(pairs: Readonly<Record<string, string | Buffer>>): Vars {
  const bytes = packet(pairs)
  const vars = parseVars(bytes.toString('latin1'), HEADER_BYTES, bytes.length)
  return 'fault' in vars ? assert.fail(vars.fault) : vars
}

const shown = (key: string, value: string | Buffer, by = hide) =>
  toPairs(by.vars(varsOf({ [key]: value })))[0]?.[1].toString()

const PICKLES = {
  'protocol 0': Buffer.from(['(dp0', 'V' + 'password', 'p1', `V${SECRET}`, 'p2', 's.'].join('\n')),
  'protocol 2': Buffer.concat([Buffer.from([0x80, 2]), Buffer.from(`}q\0X\x08password${SECRET}`)]),
  'protocol 4': Buffer.concat([Buffer.from([0x80, 4, 0x95, 20]), Buffer.from(SECRET)]),
}

describe('what is hidden', () => {
  for (const [key, value] of [
    ['password', SECRET],
    ['Password', SECRET],
    ['kwargs', JSON.stringify({ user: 'joe', password: SECRET })],
    ['args', JSON.stringify(['joe', { deep: [{ token: SECRET }] }])],
    ['args', JSON.stringify([JSON.stringify({ token: { a: SECRET } })])],
    ['data', JSON.stringify({ 'api.key': [SECRET] })],
    ['url', `https://example.com/?user=joe&token=${SECRET}`],
    ['text', `user: joe, password: '${SECRET}'`],
    ['kwargs', `{"password": "${SECRET}", `],
    ['nested', '['.repeat(40) + JSON.stringify({ password: SECRET }) + ']'.repeat(40)],
    ...Object.values(PICKLES).map(pickle => ['args', pickle] as const),
    ...Object.values(PICKLES).map(pickle => ['payload', pickle] as const),
  ] as ReadonlyArray<readonly [string, string | Buffer]>)
    it(`${key}: ${JSON.stringify(value.toString('latin1')).slice(0, 60)}`, () => {
      const text = shown(key, value) ?? ''
      assert.ok(!text.includes(SECRET), text)
      assert.match(text, /\[hidden\]/)
      assert.equal(shown(key, value, new Hide([])), value.toString())
    })

  it('is nothing else', () => {
    for (const [key, value] of [
      ['to', 'joe'],
      ['passwords', 'are hidden'],
      ['kwargs', '{"user":  "joe"}'],
      ['note', 'no token here'],
      ['name', 'Jürgen'],
    ] as const)
      assert.equal(shown(key, value), value)
  })

  it('bodies: what is JSON is shown without it, all else is hidden', () => {
    const body = (text: string | Buffer) => hide.body(Buffer.from(text)).toString()
    assert.equal(body(JSON.stringify({ a: 1, token: SECRET })), '{"a":1,"token":"[hidden]"}')
    for (const text of [`password=${SECRET}`, SECRET, PICKLES['protocol 4'], ''])
      assert.ok(!body(text).includes(SECRET))
    assert.equal(body(''), '')
    assert.equal(new Hide([]).body(Buffer.from(SECRET)).toString(), SECRET)
  })

  it('in lines', () => {
    for (const line of [
      `Error: login failed with password=${SECRET}`,
      `{"user":"joe","password":"${SECRET}"}`,
      `PASSWORD: ${SECRET}`,
      `{'token': '${SECRET}'}`,
      `"{\\"token\\":\\"${SECRET}\\"}"`,
      `{ token => "a ${SECRET} b" }`,
    ])
      assert.ok(!hide.text(line).includes(SECRET), hide.text(line))
    assert.equal(hide.text('the password is wrong; my_token=1'), 'the password is wrong; my_token=1')
  })

  it('takes no time over what is long', () => {
    const since = performance.now()
    hide.text(`password="${'\\'.repeat(100_000)}`)
    hide.text('password'.repeat(50_000))
    hide.text(`token=${' '.repeat(100_000)}`)
    hide.vars(varsOf({ a: '['.repeat(60_000) }))
    assert.ok(performance.now() - since < 2000)
  })
})
