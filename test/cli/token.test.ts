import assert from 'node:assert/strict'
import { chmodSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { parseTokens } from '#src/admin/operate/dashboard-tokens.js'
import { Tokens } from '#src/doors/dashboard/access/tokens.js'
import { inProcess } from '../helpers/cli.js'
import { workspace } from '../helpers/workspace.js'

const NAMED = ['--name', 'alice', '--role', 'operator']

describe('spoold token', () => {
  it('prints a token, and stores only its hash in the file', async () => {
    const file = join(workspace(), 'tokens')
    const { code, stdout } = await inProcess(['token', file, ...NAMED, '--payload'])
    const other = await inProcess(['token', file, '--name', 'bob', '--role', 'viewer'])
    assert.equal(code, 0)
    assert.equal(statSync(file).mode & 0o777, 0o600)
    const text = readFileSync(file, 'utf8')
    assert.ok(!text.includes(stdout.trim()))
    const rights = parseTokens(text).map(({ name, role, mayReadPayload }) => [name, role, mayReadPayload])
    assert.deepEqual(rights, [
      ['alice', 'operator', true],
      ['bob', 'viewer', false],
    ])
    const tokens = new Tokens(file, assert.fail)
    assert.equal((await tokens.withHash((await tokens.hashOf(stdout.trim())) ?? ''))?.name, 'alice')
    assert.equal((await tokens.withHash((await tokens.hashOf(other.stdout.trim())) ?? ''))?.name, 'bob')
    assert.equal(await tokens.hashOf('another'), undefined)
  })

  it('says what is wrong with a name, a role, a path or the mode of the file', async () => {
    const file = join(workspace(), 'tokens')
    assert.match(
      (await inProcess(['token', file, '--name', 'a b', '--role', 'viewer'])).stderr,
      /--name: expected 1 to/,
    )
    assert.match(
      (await inProcess(['token', file, '--name', 'a', '--role', 'root'])).stderr,
      /--role: expected viewer/,
    )
    assert.match((await inProcess(['token', join(file, 'x'), ...NAMED])).stderr, /ENOENT/)
    await inProcess(['token', file, ...NAMED])
    chmodSync(file, 0o640)
    assert.match((await inProcess(['token', file, ...NAMED])).stderr, /run chmod 600/)
    const troubles: string[] = []
    const tokens = new Tokens(file, message => troubles.push(message))
    assert.equal(await tokens.hashOf('x'), undefined)
    assert.match(troubles.join(), /no token is accepted: .*chmod 600/)
  })

  for (const line of [
    'alice',
    'alice operator',
    'alice root aa',
    `alice viewer ${'g'.repeat(64)}`,
    `a viewer+x ${'a'.repeat(64)}`,
  ])
    it(`refuses a file with a line that is no token: ${line.slice(0, 20)}`, () => {
      assert.throws(
        () => parseTokens(`# a comment\n\n${line}\n`),
        /^Error: line 3: expected NAME viewer\|operator\|admin/,
      )
    })
})
