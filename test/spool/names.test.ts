import assert from 'node:assert/strict'
import { hostname } from 'node:os'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import {
  createTaskName,
  hasUwsgiPrefix,
  isPriorityDirectory,
  isTaskName,
  isUwsgiName,
  UWSGI_PREFIX,
} from '#src/engines/spool/names.js'
import { compareVersions } from '#src/engines/spool/task-order.js'

const free = { ordered: false, strictNames: false }
const strict = { ordered: false, strictNames: true }
const strictOrdered = { ordered: true, strictNames: true }

describe('the names that run', () => {
  const table: Array<[name: string, free: boolean, strict: boolean, strictOrdered: boolean]> = [
    ['uwsgi_spoolfile_on_host_1_1_1_1_1', true, true, true],
    ['uwsgi_spoolfile_on_', true, true, true],
    ['uwsgi_spoolfile_on_a.tmp', true, true, true], // uWSGI runs it, so it is meant
    ['ztask', true, false, false],
    ['007', true, false, true],
    ['1a', true, false, false],
    ['-1', true, false, false],
    ['.hidden', false, false, false],
    ['.spoold', false, false, false],
    ['job.tmp', false, false, false],
    ['job.part', false, false, false],
    ['job.lock', false, false, false],
    ['job~', false, false, false],
    ['job.tmp.real', true, false, false],
    ['caf\xc3\xa9', true, false, false],
    ['\xff\xfe', true, false, false],
  ]
  for (const [name, ...expected] of table)
    it(`${JSON.stringify(name)}: free ${expected[0]}, strict ${expected[1]}, strict and ordered ${expected[2]}`, () => {
      assert.deepEqual(
        [free, strict, strictOrdered].map(rules => isTaskName(name, rules)),
        expected,
      )
    })

  it("count as uWSGI's own if they are digits and the spool is ordered", () => {
    assert.equal(isUwsgiName('12', strict), false)
    assert.equal(isUwsgiName('12', strictOrdered), true)
  })

  it("have uWSGI's prefix only if they begin with all of it, whatever follows", () => {
    const near = fc.integer({ min: 0, max: UWSGI_PREFIX.length }).map(length => UWSGI_PREFIX.slice(0, length))
    fc.assert(
      fc.property(near, fc.string(), (begin, rest) => {
        assert.equal(hasUwsgiPrefix(begin + rest), (begin + rest).startsWith(UWSGI_PREFIX))
      }),
    )
    assert.deepEqual([`${UWSGI_PREFIX}\xff`, 'uwsgi_spoolfile_on`', UWSGI_PREFIX].map(hasUwsgiPrefix), [
      true,
      false,
      true,
    ])
  })

  it("are entered as priority directories if they are digits or begin with uWSGI's prefix", () => {
    assert.deepEqual(['7', '007', '7a', '-7', '', 'uwsgi_spoolfile_on_x'].map(isPriorityDirectory), [
      true,
      true,
      false,
      false,
      false,
      true,
    ])
  })
})

describe('a new name', () => {
  it("has uWSGI's fields", () => {
    const [, host, pid, counter, random, seconds, micros] =
      /^uwsgi_spoolfile_on_(.+)_(\d+)_(\d+)_(\d+)_(\d+)_(\d+)$/.exec(createTaskName(1_700_000_000_000_042)) ??
      []
    assert.equal(host, hostname())
    assert.equal(Number(pid), process.pid)
    assert.ok(Number(counter) >= 1)
    assert.ok(Number(random) < 2 ** 31)
    assert.deepEqual([seconds, micros], ['1700000000', '42'])
  })

  it('comes after the names made before it in the order in which they run', () => {
    const names = Array.from({ length: 200 }, () => createTaskName())
    assert.deepEqual([...names].sort(compareVersions), names)
    assert.equal(new Set(names).size, names.length)
  })
})
