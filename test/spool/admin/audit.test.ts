import assert from 'node:assert/strict'
import { appendFileSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { type AuditEntry, readAudit, writeAudit } from '#src/engines/spool/admin/audit.js'
import { spoolDirectory } from '../../helpers/workspace.js'

const entry = (action: string): AuditEntry => ({ at: 1, who: 'joe', role: 'admin', action })
const fileOf = (spool: string) => join(spool, '.spoold/audit')

describe('the audit of a spool', () => {
  it('has a line for each action, in a file that only its owner may read', () => {
    const spool = spoolDirectory()
    assert.deepEqual(readAudit(spool, 9), [])
    for (const action of ['a', 'b', 'c']) writeAudit(spool, { ...entry(action), task: 'x\ny', count: 3 })
    assert.deepEqual(
      readAudit(spool, 2).map(({ action }) => action),
      ['c', 'b'],
    )
    assert.equal(readAudit(spool, 1)[0]?.task, 'x\ny')
    assert.equal(statSync(fileOf(spool)).mode & 0o777, 0o600)
  })

  it('skips what is no line of the audit, and goes on after half a line', () => {
    const spool = spoolDirectory()
    writeAudit(spool, entry('a'))
    appendFileSync(fileOf(spool), 'null\n{"at":"x"}\n[]\n{"at":1,"who":"ev')
    writeAudit(spool, entry('b'))
    assert.deepEqual(readAudit(spool, 9), [entry('b'), entry('a')])
  })

  it('keeps a full file beside one that was put aside in the same millisecond', t => {
    const spool = spoolDirectory()
    t.mock.method(Date, 'now', () => 1_700_000_000_000)
    for (const action of ['a', 'b']) {
      writeAudit(spool, entry(action))
      appendFileSync(fileOf(spool), `${'x'.repeat(5 * 1024 * 1024)}\n`)
      writeAudit(spool, entry(action))
    }
    const kept = readdirSync(join(spool, '.spoold')).filter(name => name.startsWith('audit-'))
    assert.deepEqual(kept.sort(), ['audit-1700000000000', 'audit-1700000000001'])
  })

  it('keeps at most four old files, and the newest lines', () => {
    const spool = spoolDirectory()
    writeAudit(spool, entry('a'))
    const old = ['1000000000001', '1000000000002', '1000000000003', '1000000000004', '1000000000005']
    for (const name of old) writeFileSync(`${fileOf(spool)}-${name}`, '')
    appendFileSync(fileOf(spool), `${'x'.repeat(5 * 1024 * 1024)}\n`)
    writeAudit(spool, entry('b'))
    writeAudit(spool, entry('c'))
    const kept = readdirSync(join(spool, '.spoold')).filter(name => name.startsWith('audit-'))
    assert.equal(kept.length, 4)
    assert.ok(!kept.includes(`audit-${old[0]}`))
    assert.ok(statSync(fileOf(spool)).size < 1000)
    assert.deepEqual(readAudit(spool, 2), [entry('c'), entry('b')])
  })

  it('cuts long texts', () => {
    const spool = spoolDirectory()
    writeAudit(spool, { ...entry('a'), filter: 'x'.repeat(100_000) })
    assert.equal(readAudit(spool, 1)[0]?.filter?.length, 501)
  })

  it('is neither written nor read through a link', () => {
    const spool = spoolDirectory()
    const outside = join(dirname(spool), 'outside')
    writeFileSync(outside, 'mine')
    mkdirSync(join(spool, '.spoold'), { mode: 0o700 })
    symlinkSync(outside, fileOf(spool))
    assert.throws(() => writeAudit(spool, entry('a')), /ELOOP/)
    assert.equal(statSync(outside).size, 4)
    assert.deepEqual(readAudit(spool, 9), [])
  })
})
