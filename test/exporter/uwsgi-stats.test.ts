import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { printed, uwsgiStats } from '#src/doors/exporter/uwsgi-stats.js'
import type { DaemonSnapshot } from '#src/runtime/stats/snapshot.js'
import { FIXTURES } from '../helpers/workspace.js'

/** A snapshot and the answer of a real uWSGI 2.0.21: fixtures/stats. */
const read = (name: string) => JSON.parse(readFileSync(join(FIXTURES, 'stats', name), 'utf8'))
const snapshot: DaemonSnapshot = read('snapshot.json')
const uwsgi = read('uwsgi-2.0.21.json')

const document = (from = snapshot, withCores = true) => JSON.parse(printed(uwsgiStats(from, withCores), true))

/** Paths of fields, such as `workers[].cores[].id`, of the first entry of each list. */
function fieldsOf(value: unknown, path = ''): string[] {
  if (Array.isArray(value)) return value.length === 0 ? [] : fieldsOf(value[0], `${path}[]`)
  if (typeof value !== 'object' || value === null) return [`${path}: ${typeof value}`]
  return Object.entries(value).flatMap(([key, each]) => fieldsOf(each, path === '' ? key : `${path}.${key}`))
}

describe('the document of the stats server', () => {
  it("has each field of uWSGI's, of the same type", () => {
    const ours = new Set(fieldsOf(document()))
    // locks and applications are uWSGI's own; a lone cron entry names no process here
    const theirs = fieldsOf(uwsgi).filter(
      field => !/^(locks|workers\[\]\.apps)\[\]|^crons\[\]\.(pid|started_at)/.test(field),
    )
    assert.deepEqual(
      theirs.filter(field => !ours.has(field)),
      [],
    )
    assert.ok(theirs.length > 40, `${theirs.length} fields were compared`)
  })

  it("has uWSGI's words for what a process does", () => {
    const [spool] = snapshot.spools
    const [worker] = spool?.processes.workers ?? []
    assert.ok(spool !== undefined && worker !== undefined)
    const statusWith = (change: object | null, wanted = 1) => {
      const workers = change === null ? [] : [{ ...worker, running: [], signals: [], ...change }]
      const processes = { ...spool.processes, wanted, workers }
      return document({ ...snapshot, spools: [{ ...spool, processes }] }).workers[0].status
    }
    assert.equal(statusWith({}), 'idle')
    assert.equal(statusWith({ running: [{ task: 't', sinceMs: 1 }] }), 'busy')
    assert.equal(statusWith({ signals: [17] }), 'sig17')
    assert.equal(statusWith(null), 'cheap')
  })

  it('counts each run once, also those of processes that are gone', () => {
    const [spool] = snapshot.spools
    assert.ok(spool !== undefined)
    const { done, retried, errors, ignored, buried, unsettled } = spool.totals
    const runs = done + retried + errors + ignored + buried + unsettled
    const living = spool.processes.workers.reduce((sum, { ran }) => sum + ran, 0)
    assert.ok(runs > living, 'the fixture has runs of a process that is gone')
    const { workers, spoolers } = document({ ...snapshot, spools: [spool] })
    const sumOf = (list: Array<Record<string, number>>, field: string) =>
      list.reduce((sum, each) => sum + (each[field] ?? 0), 0)
    assert.equal(sumOf(workers, 'requests'), runs)
    assert.equal(sumOf(spoolers, 'tasks'), runs)
    assert.equal(sumOf(workers, 'respawn_count'), spool.totals.spawned)
  })

  it('leaves out cores when asked, and has the whole snapshot under the key spoold', () => {
    const { workers, spoold } = document(snapshot, false)
    assert.equal('cores' in workers[0], false)
    assert.deepEqual(spoold, snapshot)
  })

  it('is printed as by uWSGI: with tabs, and no space after a colon', () => {
    const text = printed({ a: 1, 'b": ': { c: 'x": y' }, d: [] }, false)
    assert.equal(text, '{\n\t"a":1,\n\t"b\\": ":{\n\t\t"c":"x\\": y"\n\t},\n\t"d":[]\n}')
  })
})
