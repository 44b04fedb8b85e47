import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { leftIn } from '../helpers/files.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { ROOT, workspace } from '../helpers/workspace.js'

/** The task that a README tells its reader to enqueue, and the lines that it prints. */
const EXAMPLES = {
  python: {
    words: ['ud_spool_func=begin', 'ud_spool_ret=-2'],
    seen: ['hello world', 'the sum is 6', 'hello sum'],
  },
  exec: { words: ['to=world', 'body=letter'], seen: ['hello world, your letter has 6 bytes'] },
} as const

describe('the handler example prints what its README shows in', () => {
  for (const [name, { words, seen }] of Object.entries(EXAMPLES))
    it(name, { skip: name === 'python' && (skipUnless('python3') || skipDecorators()) }, async () => {
      const directory = join(workspace(), name)
      cpSync(join(ROOT, 'spool-examples', name), directory, { recursive: true })
      const spool = join(directory, 'spool')
      assert.equal((await spoold(['enqueue', '--spooler', spool, ...words])).code, 0)
      const { code, stdout, stderr } = await spoold(['--drain', join(directory, 'app.ini')])
      assert.equal(code, 0, stderr)
      for (const line of seen) assert.ok((stdout + stderr).includes(line), `${line} in ${stdout}${stderr}`)
      assert.deepEqual(leftIn(spool), [])
    })
})

function skipDecorators(): string | false {
  try {
    execFileSync(PYTHON, ['-c', 'import importlib.util as u; assert u.find_spec("uwsgidecorators")'])
    return false
  } catch {
    return 'needs python3-uwsgidecorators'
  }
}
