import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { type ActionTable, findAction } from '#src/doors/control/actions.js'
import { LineBuffer } from '#src/engines/control/line-buffer.js'
import { isControlName } from '#src/engines/control/names.js'
import { checkControl, parseControlSocket } from '#src/formats/control/option.js'
import {
  ControlError,
  formatReply,
  formatRequest,
  parseReply,
  parseRequest,
} from '#src/formats/control/protocol.js'

const codeOf = (act: () => unknown) => {
  try {
    act()
  } catch (error) {
    return error instanceof ControlError ? error.code : error
  }
  return 'ok'
}

describe('the control protocol', () => {
  it('reads what it writes', () => {
    const id = fc.oneof(fc.string({ maxLength: 64 }), fc.integer())
    fc.assert(
      fc.property(id, fc.string(), fc.dictionary(fc.string(), fc.string()), (id, verb, args) => {
        const text = formatRequest({ id, verb, args })
        assert.equal(text.indexOf('\n'), text.length - 1)
        assert.deepEqual(parseRequest(text), JSON.parse(JSON.stringify({ id, verb, args })))
      }),
    )
    for (const reply of [{ ok: null }, { event: 'a\nb' }, { error: { code: 'failed', message: 'no' } }])
      assert.deepEqual(parseReply(formatReply(1, reply)), reply)
  })

  it('refuses lines that are no request, and reads no reply from lines that are none', () => {
    const wrong = ['', '[]', 'null', '1', '{', '{"v":1}', '{"v":1,"id":{}}', '{"v":1,"id":1,"verb":3}']
    for (const line of [
      ...wrong,
      `{"v":1,"id":"${'x'.repeat(65)}","verb":"x"}`,
      '{"v":1,"id":1,"verb":"x","args":[]}',
    ])
      assert.equal(
        codeOf(() => parseRequest(line)),
        'malformed',
        line,
      )
    assert.equal(
      codeOf(() => parseRequest('{"v":2,"id":1,"verb":"x"}')),
      'version',
    )
    fc.assert(
      fc.property(fc.string(), line => {
        assert.ok(['malformed', 'version'].includes(String(codeOf(() => parseRequest(line)))))
      }),
    )
    for (const line of ['', 'HTTP/1.1 400 Bad Request', '{"v":2,"ok":1}', '{"v":1,"error":"no"}'])
      assert.equal(parseReply(line), undefined, line)
  })

  it('finds the action of a verb, and checks role and arguments', () => {
    const actions: ActionTable = {
      read: { role: 'viewer', args: { 'spool?': 'text' }, run: () => 1 },
      act: { role: 'operator', args: { count: 'count', 'why?': 'text' }, run: () => 2 },
    }
    const find = (verb: string, args: object, role: 'viewer' | 'operator' = 'operator') =>
      codeOf(() => findAction(actions, { id: 1, verb, args }, role))
    assert.equal(find('read', {}, 'viewer'), 'ok')
    assert.equal(find('read', { spool: 'x' }), 'ok')
    assert.equal(find('read', { spool: 1 }), 'invalid-args')
    assert.equal(find('act', { count: 2 }), 'ok')
    assert.equal(find('act', { count: 2, why: 'x' }), 'ok')
    assert.equal(find('act', {}), 'invalid-args')
    assert.equal(find('act', { count: -1 }), 'invalid-args')
    assert.equal(find('act', { count: 1, more: 1 }), 'invalid-args')
    const deep = JSON.parse(`${'['.repeat(30_000)}${']'.repeat(30_000)}`)
    assert.equal(find('read', { spool: deep }), 'invalid-args')
    assert.equal(find('act', { count: 1 }, 'viewer'), 'forbidden')
    for (const verb of ['nothing', 'constructor', '__proto__', 'toString'])
      assert.equal(find(verb, {}), 'unknown-verb')
  })

  it('gives out lines however they arrive, and keeps none that is too long', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ maxLength: 20 }).map(text => text.replaceAll('\n', ''))),
        fc.integer({ min: 1, max: 9 }),
        (lines, size) => {
          const bytes = Buffer.from(lines.map(line => `${line}\n`).join(''))
          const buffer = new LineBuffer(1000)
          const got: unknown[] = []
          for (let at = 0; at < bytes.length; at += size) {
            buffer.add(bytes.subarray(at, at + size))
            for (let line = buffer.next(); line !== undefined; line = buffer.next()) got.push(line)
          }
          assert.deepEqual(
            got,
            lines.map(line => Buffer.from(line).toString()),
          )
          assert.equal(buffer.isPartial, false)
        },
      ),
    )
    const buffer = new LineBuffer(8)
    buffer.add(Buffer.from('1234567\n'))
    assert.equal(buffer.next(), '1234567')
    buffer.add(Buffer.from('12345678'))
    assert.equal(buffer.next(), null)
  })

  it('knows its sockets by name', () => {
    for (const name of ['control', 'control.2', 'control@web1.example.org', 'control@web1.3'])
      assert.ok(isControlName(name), name)
    for (const name of [
      'control.lock',
      '.control.12ab34cd',
      'controls',
      'control.new',
      'format',
      'control@a/b',
    ])
      assert.ok(!isControlName(name), name)
  })

  it('takes paths with a role and a mode', () => {
    assert.deepEqual(parseControlSocket('/run/a.sock'), {
      path: '/run/a.sock',
      role: 'operator',
      mode: 0o600,
    })
    assert.deepEqual(parseControlSocket('./a,role=viewer'), { path: './a', role: 'viewer', mode: 0o660 })
    assert.deepEqual(parseControlSocket('/a,mode=0666,role=viewer'), {
      path: '/a',
      role: 'viewer',
      mode: 0o666,
    })
    assert.equal(parseControlSocket('off'), null)
    const faults: string[] = []
    const wrong = ['on', '/a,role=admin', '/a,mode=999', '/a,b', '', '/no/such/directory/a.sock']
    checkControl([...wrong, '/tmp/a.sock', 'off'], i => faults.push(wrong[i] ?? `number ${i}`))
    assert.deepEqual(faults, wrong)
  })
})
