import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Hide } from '#src/formats/protocol/hide.js'
import { isRedisAddress, parseRedisAddress, type RedisAddress } from '#src/formats/protocol/redis-address.js'

const GOOD: ReadonlyArray<readonly [text: string, name: string, parts: Partial<RedisAddress>]> = [
  [
    'redis://db/0/mail',
    'redis://db:6379/0/mail',
    { kind: 'one', hosts: [{ host: 'db', port: 6379 }], queue: 'mail', prefix: 'bull', replicas: 0 },
  ],
  [
    'REDISS://joe:p%40ss%3A:word@[::1]:7000/3/a.b',
    'rediss://[::1]:7000/3/a.b',
    { hosts: [{ host: '::1', port: 7000 }], username: 'joe', password: 'p@ss::word', isTls: true },
  ],
  ['redis://:secret@db/0/mail?wait=2', 'redis://db:6379/0/mail', { password: 'secret', replicas: 2 }],
  ['redis://db/1/mail', 'redis://db:6379/1/mail', { lockMs: 15_000, checkMs: 5000 }],
  ['redis://db/0/mail?lock=60&check=2', 'redis://db:6379/0/mail', { lockMs: 60_000, checkMs: 2000 }],
  [
    'redis://db/0/mail?prefix=app1',
    'redis://db:6379/0/mail?prefix=app1',
    { prefix: 'app1', username: undefined },
  ],
  [
    'redis+unix://:secret@/run/redis/a.sock/2/mail',
    'redis+unix:///run/redis/a.sock/2/mail',
    { kind: 'unix', path: '/run/redis/a.sock', database: 2, password: 'secret' },
  ],
  [
    'redis+sentinel://s1,s2:5000/main/0/mail?sentinel-password=x',
    'redis+sentinel://s1:26379,s2:5000/main/0/mail',
    { kind: 'sentinel', master: 'main', sentinelPassword: 'x', queue: 'mail' },
  ],
  [
    'rediss+cluster://a,b:1/0/mail?ca=/etc/ca.pem',
    'rediss+cluster://a:6379,b:1/0/mail',
    { kind: 'cluster', prefix: '{bull:mail}', tls: { ca: '/etc/ca.pem' } },
  ],
]
const BAD = [
  'redis:mail',
  'redis://db/mail',
  'redis://db/0/a/b',
  'redis://a,b/0/mail',
  'redis://db:99999/0/mail',
  'redis://db/0/a:b',
  'redis://db/0/mail?nope=1',
  'redis://db/0/mail?wait=many',
  'redis://db/0/mail?lock=0',
  'redis://db/0/mail?lock=1.5',
  'redis://db/0/mail?lock=3601',
  'redis://db/0/mail?lock=3&check=4',
  'redis://db/0/mail#x',
  'redis://j%oe@db/0/mail',
  'redis+unix:///0/mail',
  'redis+unix://db/run/a.sock/0/mail',
  'redis+sentinel://s1/0/mail',
  'redis+cluster://a,b/1/mail',
  'redis+nothing://a/0/mail',
  'redis://db/0/mail?ca=/etc/ca.pem',
]

describe('an address on Redis', () => {
  for (const [text, name, parts] of GOOD)
    it(`can be ${text}`, () => {
      const address = parseRedisAddress(text)
      assert.equal(address.name, name)
      for (const [key, value] of Object.entries(parts))
        assert.deepEqual(address[key as keyof RedisAddress], value, key)
      assert.equal(parseRedisAddress(name).name, name)
      assert.ok(isRedisAddress(text))
    })

  for (const text of BAD)
    it(`cannot be ${text}`, () => {
      assert.throws(() => parseRedisAddress(text), { code: 'ADDRESS_INVALID', message: /^expected / })
      assert.ok(isRedisAddress(text), 'the text is not taken for a path')
    })

  it('does not show its passwords in errors', () => {
    assert.throws(() => parseRedisAddress('redis://db/0/mail?prefix='), /expected a value after prefix=/)
    assert.throws(
      () => parseRedisAddress('redis://joe:hunter2@db/0/a:b'),
      ({ message }: Error) => {
        return !message.includes('hunter2')
      },
    )
    assert.throws(
      () => parseRedisAddress('redis+sentinel://s/m/0/q:x?sentinel-password=hunter2'),
      ({ message }: Error) => !message.includes('hunter2'),
    )
  })

  for (const text of [
    'redis:/joe:hunter2@db/0/mail',
    'rediss:joe:hunter2@db/0/mail',
    'redis:///joe:hunter2@db/0/mail',
    'redis://joe:hunter2@db:port/0/mail',
    'redis://joe:hun@hunter2@db/0/a/b',
    'redis://db/joe:hunter2@db/mail',
    'redis+unix:/:hunter2@/run/a.sock/0/mail',
    'redis+none://:hunter2@db/0/mail',
    'redis://db/0/mail?password=hunter2',
    'redis+sentinel://s/m/0/mail?sentinel-passphrase=hunter2',
    'redis:\n//joe:hunter2@db/0/mail',
    'redis://joe:hunter2 @db/0/a/b',
    'redis//joe:hunter2@db/0/mail',
    'redis;//joe:hunter2@db/0/mail',
    '//joe:hunter2@db/0/mail',
    'http://joe:hunter2@db/0/mail',
  ])
    it(`does not show its password if it is mistyped: ${JSON.stringify(text)}`, () => {
      const said = ({ message }: Error) => !message.includes('hunter2') && message.includes('got ')
      assert.ok(isRedisAddress(text), 'the text is not taken for a path')
      assert.throws(() => parseRedisAddress(text), said)
      assert.doesNotMatch(new Hide([]).configured(text), /hunter2.*@/)
    })

  for (const character of ['/', '?', '#'])
    it(`says how a password with ${character} is written`, () => {
      assert.throws(
        () => parseRedisAddress(`redis://joe:hunter${character}2@db/0/mail`),
        ({ message }: Error) => !message.includes('hunter') && message.includes('%2F for /'),
      )
      const address = `redis://joe:hunter${encodeURIComponent(character)}2@db/0/mail`
      assert.equal(parseRedisAddress(address).password, `hunter${character}2`)
    })
})
