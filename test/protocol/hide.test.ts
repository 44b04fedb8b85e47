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

describe('Hide', () => {
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
    it(`hides the secret in ${key}: ${JSON.stringify(value.toString('latin1')).slice(0, 60)}`, () => {
      const text = shown(key, value) ?? ''
      assert.ok(!text.includes(SECRET), text)
      assert.match(text, /\[hidden\]/)
      assert.equal(shown(key, value, new Hide([])), value.toString())
    })

  it('hides nothing else', () => {
    for (const [key, value] of [
      ['to', 'joe'],
      ['passwords', 'are hidden'],
      ['kwargs', '{"user":  "joe"}'],
      ['note', 'no token here'],
      ['name', 'Jürgen'],
    ] as const)
      assert.equal(shown(key, value), value)
  })

  it('shows JSON bodies without secrets, and hides all other bodies', () => {
    const body = (text: string | Buffer) => hide.body(Buffer.from(text)).toString()
    assert.equal(body(JSON.stringify({ a: 1, token: SECRET })), '{"a":1,"token":"[hidden]"}')
    for (const text of [`password=${SECRET}`, SECRET, PICKLES['protocol 4'], ''])
      assert.ok(!body(text).includes(SECRET))
    assert.equal(body(''), '')
    assert.equal(new Hide([]).body(Buffer.from(SECRET)).toString(), SECRET)
  })

  it('hides secrets in lines', () => {
    for (const line of [
      `Error: login failed with password=${SECRET}`,
      `{"user":"joe","password":"${SECRET}"}`,
      `PASSWORD: ${SECRET}`,
      `{'token': '${SECRET}'}`,
      `"{\\"token\\":\\"${SECRET}\\"}"`,
      `{ token => "a ${SECRET} b" }`,
      `{b'token': b'p\\xc3\\xa4ss ${SECRET}'}`,
      `{b'token': b"it's ${SECRET}"}`,
      `{ token: <Buffer 61 62 ${SECRET}> }`,
    ])
      assert.ok(!hide.text(line).includes(SECRET), hide.text(line))
    assert.equal(hide.text('the password is wrong; my_token=1'), 'the password is wrong; my_token=1')
  })

  it('hides the values of keys that are not ASCII, too', () => {
    const accented = new Hide(['Café'])
    for (const key of ['Café', 'CAFÉ']) assert.equal(shown(key, SECRET, accented), '[hidden]')
    assert.deepEqual(accented.secretsIn(varsOf({ café: SECRET })), [SECRET])
    const pair = ['Café', 'naïve'].map(text => Buffer.from(text).toString('latin1'))
    const [key = '', value = ''] = pair
    assert.deepEqual(accented.pair([key, value]), [key, '[hidden]'])
    assert.deepEqual(accented.pair(['n', value]), ['n', value])
  })

  it('hides the value of a pair, or secrets inside that value', () => {
    const kwargs = JSON.stringify({ user: 'joe', password: SECRET })
    assert.deepEqual(hide.pair(['password', SECRET]), ['password', '[hidden]'])
    assert.deepEqual(hide.pair(['kwargs', kwargs]), ['kwargs', '{"user":"joe","password":"[hidden]"}'])
    assert.deepEqual(hide.pair(['kwargs', `${kwargs},`]), ['kwargs', '[hidden]'])
    assert.deepEqual(hide.pair(['__proto__', 'joe']), ['__proto__', 'joe'])
    assert.deepEqual(new Hide([]).pair(['password', SECRET]), ['password', SECRET])
  })

  it('hides the values in filters, whatever they contain', () => {
    const filter = JSON.stringify({
      key: [`password=${SECRET} and, "more"`, 'to=joe'],
      grep: [`token=${SECRET}`],
    })
    assert.equal(hide.filter(filter), '{"key":["password=[hidden]","to=joe"],"grep":["token=[hidden]"]}')
  })

  it("hides the values of a task's hidden keys in any text, if they can be told from a word", () => {
    const vars = varsOf({
      password: 'first secret',
      kwargs: JSON.stringify({ token: ['second', { a: 48151623 }], user: 'joe' }),
      'api.key': 'abc',
      note: JSON.stringify(JSON.stringify({ password: 'in "JSON"' })),
    })
    const body = Buffer.from(JSON.stringify([{ password: 'third' }]))
    const said = 'first secret, second, 48151623, third, in "JSON", in \\"JSON\\", joe, abc'
    const secrets = hide.secretsIn(vars, body)
    assert.equal(
      hide.text(said, secrets),
      '[hidden], [hidden], [hidden], [hidden], [hidden], [hidden], joe, abc',
    )
    assert.deepEqual(hide.texts({ a: [said.slice(0, 12)] }, secrets), { a: ['[hidden]'] })
    assert.deepEqual(new Hide([]).secretsIn(vars, body), [])
  })

  it('hides these values as addresses, JSON, Node, Python and Ruby quote them, too', () => {
    const secrets = hide.secretsIn(varsOf({ password: 'pä"ss\\w rd', token: '"\\ud800x"' }))
    for (const form of [
      'p%C3%A4%22ss%5Cw%20rd',
      'pä\\"ss\\\\w rd', // JSON
      'pä"ss\\\\w rd', // Node
      'p\\xc3\\xa4"ss\\\\w rd', // Python
      'p\\xC3\\xA4\\"ss\\\\w rd', // Ruby
    ])
      assert.equal(hide.text(`it is <${form}>`, secrets), 'it is <[hidden]>')
  })

  it('hides logins and named secrets of the configuration, even if no keys are to be hidden', () => {
    const nothing = new Hide([])
    for (const text of [
      `redis://joe:${SECRET}@db/0/mail`,
      `rediss:/joe:${SECRET}@db/0/mail`,
      `redis:joe:a/${SECRET}@db/0/mail`,
      `https://joe:${SECRET}@example.com/`,
      `/bin/send --password=${SECRET}`,
      `/bin/send --url https://example.com/?token=${SECRET}`,
    ])
      assert.ok(!nothing.configured(text).includes(SECRET), nothing.configured(text))
    assert.equal(nothing.configured('redis://db/0/mail'), 'redis://db/0/mail')
  })

  it('hides at any depth and length without a stack overflow', () => {
    const deep = `${'['.repeat(30_000)}"deep-secret"${']'.repeat(30_000)}`
    assert.deepEqual(hide.secretsIn(varsOf({ password: deep })).slice(-1), ['deep-secret'])
    assert.deepEqual(hide.secretsIn(varsOf({}), Buffer.from(`{"a":{"token":${deep}}}`)), ['deep-secret'])
    const million = 2 ** 20
    for (const quoted of [`"${'x'.repeat(64 * million)}"`, `b'${'\\n'.repeat(8 * million)}'`])
      assert.match(hide.text(`password=${quoted}`), /^(password=)?\[hidden\]$/)
  })

  it('takes less than 2 s for very long texts', () => {
    const since = performance.now()
    hide.text(`password="${'\\'.repeat(100_000)}`)
    hide.text('password'.repeat(50_000))
    hide.text(`token=${' '.repeat(100_000)}`)
    hide.vars(varsOf({ a: '['.repeat(60_000) }))
    assert.ok(performance.now() - since < 2000)
  })
})
