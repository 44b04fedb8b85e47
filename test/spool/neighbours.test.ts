import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { neighboursOf } from '#src/engines/spool/neighbours.js'
import { TestProcess } from '../helpers/process.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

describe('neighboursOf', () => {
  it('escapes control characters in the command line of a process that works on the spool', async () => {
    const spool = spoolDirectory()
    const args = ['-e', 'setInterval(() => {}, 1000)', 'evil\n*** \x1b[2J\u202e']
    const other = new TestProcess(process.execPath, args, { cwd: spool })
    const found = await until('the process is found', () =>
      neighboursOf(spool).find(({ pid }) => pid === other.pid),
    )
    assert.match(found.command, /evil\\x0a\*\*\* \\x1b\[2J\\u202e$/)
  })
})
