import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { besidesIdle, inProcess } from '../helpers/cli.js'
import { drop, packet } from '../helpers/files.js'
import { spoolDirectory } from '../helpers/workspace.js'

describe('command lines in one process', () => {
  it('keep input, output and exit code apart when they run side by side', async () => {
    const [one, two] = [spoolDirectory(), spoolDirectory()]
    drop(one, 'first', packet({ to: 'joe' }))
    const [listed, stored, refused] = await Promise.all([
      inProcess(['ls', '--json', one]),
      inProcess(['enqueue', '--spooler', two, '--json', '-'], { input: '{"n":1}\n{"n":2}\n' }),
      inProcess(['ls', '--state', 'dying', one]),
    ])
    assert.equal(JSON.parse(listed.stdout).name, 'first')
    assert.equal(stored.stdout.split('\n').length, 3)
    assert.deepEqual([listed.code, stored.code, refused.code], [0, 0, 64])
    assert.deepEqual([listed.stderr, besidesIdle(stored).stderr, refused.stdout], ['', '', ''])
  })

  it('take the environment that they are given', async () => {
    const { code, stdout } = await inProcess(['check', '--spooler', '/nonexistent/spool'], {
      env: { SPOOLD_SPOOLER_PROCESSES: 'many' },
    })
    assert.equal(code, 1)
    assert.match(stdout, /environment SPOOLD_SPOOLER_PROCESSES.*expected .*many/)
  })
})
