import assert from 'node:assert/strict'
import { it } from 'node:test'
import { quietAmong } from '#src/doors/daemon/spool-plan.js'
import { checkGiven } from '../ini/reading.js'

it('a quiet spool is known by its path and those of its files, and by no other path', () => {
  const ini = '[uwsgi]\nspooler2 = dir=a,quiet\nspooler = ab\nspooler2 = dir=c,external,quiet\n'
  const { spools } = checkGiven({ files: { 'app.ini': ini } })
  const isQuiet = quietAmong(spools.map(each => ({ ...each, spool: `/real/${each.directory}` })))
  assert.deepEqual(['/real/a', '/real/a/7/task', '/real/c/task'].map(isQuiet), [true, true, true])
  assert.deepEqual(['/real/ab', '/real/ab/task', '/real', '/'].map(isQuiet), [false, false, false, false])
  assert.equal(quietAmong([])('/real/a'), false)
})
