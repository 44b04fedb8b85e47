import assert from 'node:assert/strict'
import { it } from 'node:test'
import { QuietSpools } from '#src/doors/daemon/quiet-spools.js'
import { checkGiven } from '../ini/reading.js'

it('a quiet spool is known by its path and those of its files, and by no other', () => {
  const ini = '[uwsgi]\nspooler2 = dir=a,quiet\nspooler = ab\nspooler2 = dir=c,external,quiet\n'
  const { spools } = checkGiven({ files: { 'app.ini': ini } })
  const quiet = new QuietSpools()
  quiet.set(spools.map(each => ({ ...each, spool: `/real/${each.directory}` })))
  const has = (path: string) => quiet.has(path)
  assert.deepEqual(['/real/a', '/real/a/7/task', '/real/c/task'].map(has), [true, true, true])
  assert.deepEqual(['/real/ab', '/real/ab/task', '/real', '/'].map(has), [false, false, false, false])
  quiet.set([])
  assert.equal(has('/real/a'), false)
})
