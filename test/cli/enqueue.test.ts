import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { besidesIdle, inProcess } from '../helpers/cli.js'
import { packet } from '../helpers/files.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

/** Enqueues, and returns the path that was printed. */
async function enqueue(spool: string, args: readonly string[], input?: Buffer): Promise<string> {
  const { code, stdout, stderr } = besidesIdle(
    await inProcess(['enqueue', '--spooler', spool, ...args], input === undefined ? {} : { input }),
  )
  assert.equal(stderr, '')
  assert.equal(code, 0)
  assert.match(stdout, /^[^\n]+\n$/)
  return stdout.trim()
}

describe('spoold enqueue', () => {
  it("writes the bytes that uWSGI would, under a name of uWSGI's form, and prints the path", async () => {
    const spool = spoolDirectory()
    const path = await enqueue(spool, ['to=joe', 'empty=', 'equation=a=b', 'ключ=знач'])
    assert.equal(dirname(path), spool)
    assert.match(path, new RegExp(`/uwsgi_spoolfile_on_${hostname()}_\\d+_1_\\d+_\\d+_\\d+$`))
    assert.deepEqual(readFileSync(path), packet({ to: 'joe', empty: '', equation: 'a=b', ключ: 'знач' }))
    assert.equal(statSync(path).mode & 0o777, 0o600)
    assert.equal(readdirSync(spool).length, 1, 'nothing else is left')
  })

  it('takes keys that JavaScript objects already have, such as __proto__', async () => {
    const path = await enqueue(spoolDirectory(), ['__proto__=p', 'constructor=c', 'toString=t'])
    const bytes = readFileSync(path)
    for (const pair of ['__proto__\x01\x00p', 'constructor\x01\x00c', 'toString\x01\x00t'])
      assert.ok(bytes.includes(pair), pair)
  })

  it('takes the body from a file or from standard input, byte for byte', async () => {
    const bytes = Buffer.from(Array.from({ length: 200_000 }, (_, i) => i % 256))
    const file = join(workspace(), 'body')
    writeFileSync(file, bytes)
    const spool = spoolDirectory()
    for (const path of [
      await enqueue(spool, ['a=b', '--body', file]),
      await enqueue(spool, ['a=b', '--body', '-'], bytes),
    ])
      assert.deepEqual(readFileSync(path), packet({ a: 'b' }, bytes))
  })

  it('sets with --at the time before which the task does not run', async () => {
    const spool = spoolDirectory()
    const at = Math.floor(Date.now() / 1000) + 1000
    for (const text of [String(at), `${at}.75`, new Date(at * 1000).toISOString()]) {
      const path = await enqueue(spool, ['a=b', '--at', text])
      assert.equal(statSync(path).mtimeMs, at * 1000, text)
    }
  })

  it('puts the task into the directory of its priority, made with the mode that uWSGI gives it', async () => {
    const spool = spoolDirectory()
    const umask = process.umask(0o027)
    try {
      const path = await enqueue(spool, ['a=b', '--priority', '7'])
      assert.equal(dirname(path), join(spool, '7'))
      assert.equal(statSync(dirname(path)).mode & 0o777, 0o750, '0777 less the umask')
      assert.ok(readFileSync(path).includes('priority\x01\x007'))
    } finally {
      process.umask(umask)
    }
  })

  it('makes a missing spool with mode 0750', async () => {
    const spool = join(workspace(), 'new')
    const { code } = await inProcess(['enqueue', '--spooler', spool, 'a=b'])
    assert.equal(code, 0)
    assert.equal(statSync(spool).mode & 0o777, 0o750)
  })

  for (const priority of ['x', '../../x', '-1', '1/2', ''])
    it(`leaves nothing behind for the priority ${JSON.stringify(priority)}`, async () => {
      const spool = spoolDirectory()
      const { code, stderr } = await inProcess(['enqueue', '--spooler', spool, 'a=b', '--priority', priority])
      if (priority === '') return assert.equal(code, 0, 'an empty priority is none, as in uWSGI')
      assert.equal(code, 64)
      assert.match(stderr, /^spoold: \[REQUEST_INVALID\] priority must be digits only, got "[^\n]*"\n$/)
      assert.deepEqual(readdirSync(spool), [])
      assert.deepEqual(readdirSync(dirname(spool)), ['spool'])
    })

  it('names the key and suggests a body when a value is too long', async () => {
    const spool = spoolDirectory()
    const { code, stderr } = await inProcess(['enqueue', '--spooler', spool, `big=${'x'.repeat(70_000)}`])
    assert.equal(code, 64)
    assert.match(stderr, /^spoold: [^\n]*"?big"?[^\n]*body[^\n]*\n$/)
    assert.deepEqual(readdirSync(spool), [])
  })
})
