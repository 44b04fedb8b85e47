import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { compareVersions } from '#src/engines/spool/task-order.js'
import { PYTHON } from '../helpers/python.js'
import { isLong, skipUnless } from '../helpers/requires.js'

/** Few different characters, so that long common prefixes, runs of digits and leading zeros are frequent. */
const nameChars = fc.constantFrom(...'0001239aZ_-.:~')
const name = fc.string({ unit: nameChars, minLength: 1, maxLength: 12 })

/** The order in which uWSGI was seen to run these (reference, experiment e). */
const SEEN = ['001', '00', '01', '010', '05', '0', '1', '2', '3', '5', '9', '10', '20', '50', '100']

describe('the order of an ordered spool', () => {
  it("is uWSGI's for odd names", () => {
    assert.deepEqual([...SEEN].sort().sort(compareVersions), SEEN)
    const names = [
      'uwsgi_spoolfile_on_h_1_01_1',
      'uwsgi_spoolfile_on_h_1_1_1',
      'uwsgi_spoolfile_on_h_1_2_1',
      'uwsgi_spoolfile_on_h_1_9_1',
      'uwsgi_spoolfile_on_h_1_10_1',
    ]
    assert.deepEqual([...names].sort().sort(compareVersions), names)
    assert.ok(compareVersions('uwsgi_spoolfile_on_H_1', 'uwsgi_spoolfile_on_h_1') < 0)
  })

  it("is the manual's for the layout in the manual", () => {
    const paths = ['1/task0', '1/task1', '2/foo', 'xtask', 'ztask']
    assert.deepEqual([...paths].reverse().sort(compareVersions), paths)
  })

  it('compares nested priorities segment by segment', () => {
    const paths = ['3/4/x', '3/7', '3/12/x', '3/uwsgi_spoolfile_on_b', '10/a', 'uwsgi_spoolfile_on_a']
    assert.deepEqual([...paths].reverse().sort(compareVersions), paths)
  })

  it('is antisymmetric and transitive', () => {
    fc.assert(
      fc.property(name, name, name, (a, b, c) => {
        assert.equal(Math.sign(compareVersions(a, b)), -Math.sign(compareVersions(b, a)) || 0)
        if (compareVersions(a, b) <= 0 && compareVersions(b, c) <= 0) assert.ok(compareVersions(a, c) <= 0)
      }),
      { numRuns: 20_000 },
    )
  })

  it("is glibc's strverscmp", { skip: skipUnless('python3') }, () => {
    const byteName = fc
      .uint8Array({ minLength: 1, maxLength: 8 })
      .map(bytes => Buffer.from(bytes.map(byte => byte || 1)).toString('latin1'))
    const pairs = [
      ...fc.sample(fc.tuple(name, name), isLong ? 400_000 : 60_000),
      ...fc.sample(fc.tuple(byteName, byteName), 20_000),
    ].filter(pair => !pair.some(each => each.includes('/')))
    const script = `
import ctypes, sys, json
cmp = ctypes.CDLL(None).strverscmp
cmp.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
sign = lambda n: (n > 0) - (n < 0)
print(json.dumps([sign(cmp(a.encode('latin1'), b.encode('latin1'))) for a, b in json.load(sys.stdin)]))`
    const oracle: number[] = JSON.parse(
      execFileSync(PYTHON, ['-c', script], { input: JSON.stringify(pairs), maxBuffer: 1e8 }).toString(),
    )
    for (const [i, [a, b]] of pairs.entries())
      assert.equal(
        Math.sign(compareVersions(a, b)),
        oracle[i],
        `${JSON.stringify(a)} and ${JSON.stringify(b)}`,
      )
  })
})
