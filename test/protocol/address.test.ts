import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  type Address,
  formatAddress,
  isLocal,
  parseAddress,
  parseNetwork,
} from '#src/formats/protocol/address.js'

const GOOD: ReadonlyArray<readonly [text: string, address: Address, shown?: string]> = [
  ['127.0.0.1:3031', { kind: 'tcp', host: '127.0.0.1', port: 3031 }],
  [':3031', { kind: 'tcp', host: '', port: 3031 }],
  ['spool.example.org:0', { kind: 'tcp', host: 'spool.example.org', port: 0 }],
  ['[::1]:3031', { kind: 'tcp', host: '::1', port: 3031 }],
  ['/run/app.sock', { kind: 'unix', path: '/run/app.sock' }],
  ['/run/a:1.sock', { kind: 'unix', path: '/run/a:1.sock' }],
  ['app.sock', { kind: 'unix', path: 'app.sock' }],
  ['../app:sock', { kind: 'unix', path: '../app:sock' }],
  ['@app', { kind: 'abstract', name: 'app' }],
  ['\\0app', { kind: 'abstract', name: 'app' }, '@app'],
]
const BAD = ['', ':', 'host:', 'host:x', 'a:b:3031', '::1:3031', '[::1]', '[nope]:3031', ':65536', ':-1', '@']

describe('an address', () => {
  for (const [text, address, shown = text] of GOOD)
    it(`can be ${text}`, () => {
      assert.deepEqual(parseAddress(text), address)
      assert.equal(formatAddress(address), shown)
    })

  for (const text of [...BAD, `/${'x'.repeat(102)}`, '/a\0b'])
    it(`cannot be ${JSON.stringify(text.slice(0, 20))}`, () => {
      assert.throws(() => parseAddress(text), { code: 'ADDRESS_INVALID', message: /^expected host:port, / })
    })

  it('is local when only this machine comes to it', () => {
    const isOpen = (text: string) => !isLocal(parseAddress(text))
    assert.deepEqual(['127.0.0.1:1', '127.9.9.9:1', '[::1]:1', 'localhost:1', '/s', '@s'].filter(isOpen), [])
    const open = [':1', '0.0.0.0:1', '[::]:1', '192.168.0.1:1', '127.0.0.1.example.org:1']
    assert.deepEqual(open.filter(isOpen), open)
  })

  it('does not repeat the password of an address on Redis', () => {
    assert.throws(() => parseAddress('redis://app:secret@db/0/mail'), {
      code: 'ADDRESS_INVALID',
      message: /, got the address of a spool on Redis$/,
    })
  })
})

describe('a network', () => {
  it('is a range or one address', () => {
    assert.deepEqual(parseNetwork('10.0.0.0/8'), { address: '10.0.0.0', prefix: 8, family: 'ipv4' })
    assert.deepEqual(parseNetwork('10.1.2.3'), { address: '10.1.2.3', prefix: 32, family: 'ipv4' })
    assert.deepEqual(parseNetwork('fd00::/8'), { address: 'fd00::', prefix: 8, family: 'ipv6' })
  })

  for (const text of ['', 'x', '10.0.0.0/33', '10.0.0/8', '10.0.0.0/', 'fd00::/129', 'example.org'])
    it(`is not ${JSON.stringify(text)}`, () => {
      assert.throws(() => parseNetwork(text), { code: 'ADDRESS_INVALID' })
    })
})
