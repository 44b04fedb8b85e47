import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { it } from 'node:test'
import { ACTIONS, type Action } from '#src/admin/operate/actions.js'
import { ROOT } from '../helpers/workspace.js'

it('docs/dashboard.md says which role may do each action, and to tasks in which states', () => {
  const text = readFileSync(join(ROOT, 'docs/dashboard.md'), 'utf8')
  const rows = [...text.matchAll(/^\| ([\w-]+) \| (\w+) \| (.*?) ?\| (.*?) ?\|$/gm)].map(row => row.slice(1))
  const expected = Object.entries<Action>(ACTIONS).map(([name, action]) => {
    if (action.on === 'spool') return [name, action.role, '', '']
    const many = action.isFinal ? 'yes, with their number typed in' : 'yes'
    return [name, action.role, action.states.join(', '), action.inBulk ? many : 'no']
  })
  assert.deepEqual(
    rows.filter(([name]) => name !== 'action'),
    expected,
  )
})
