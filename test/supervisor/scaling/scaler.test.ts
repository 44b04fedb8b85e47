import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { Histogram } from '#src/base/task/histogram.js'
import { ALGORITHMS, loadAlgorithm, Scaler } from '#src/runtime/supervisor/scaling/algorithms.js'
import { SECOND, snapshot } from '../../helpers/scaling.js'

const directory = mkdtempSync(join(tmpdir(), 'spoold-test-scaling-'))
after(() => rmSync(directory, { recursive: true }))
let files = 0
function file(text: string, ending = 'mjs'): string {
  const path = join(directory, `mine-${++files}.${ending}`)
  writeFileSync(path, text)
  return path
}
const scaler = async (text: string, ending?: string) => new Scaler(await loadAlgorithm(file(text, ending)))

describe('an algorithm of the user', () => {
  const exported = [
    ['export default ({ target }) => ({ target: target + 1, state: 0, reason: "why not" })', 'mjs'],
    ['export const decide = ({ target }) => ({ target: target + 1, state: 0, reason: "why not" })', 'mjs'],
    ['module.exports = ({ target }) => ({ target: target + 1, state: 0, reason: "why not" })', 'cjs'],
    ['exports.decide = ({ target }) => ({ target: target + 1, state: 0, reason: "why not" })', 'cjs'],
  ] as const
  for (const [text, ending] of exported)
    it(`decides: ${text.split('=')[0]} (${ending})`, async () => {
      const { target, reason } = (await scaler(text, ending)).decide(snapshot('bbb'))
      assert.deepEqual([target, reason], [4, 'why not'])
    })

  it('is given the state that it returned before', async () => {
    const counting = await scaler('export default (_, n = 3) => ({ target: n, state: n + 1, reason: "" })')
    assert.deepEqual(
      [1, 2, 3].map(() => counting.decide(snapshot('bb')).target),
      [3, 4, 5],
    )
  })

  it('cannot leave the limits', async () => {
    const greedy = await scaler('export default () => ({ target: 99, state: 0, reason: "" })')
    assert.equal(greedy.decide(snapshot('bb')).target, 10)
    assert.equal(greedy.decide(snapshot('bbb', { canSpawn: false })).target, 3)
    const mean = await scaler('export default () => ({ target: -99, state: 0, reason: "" })')
    assert.equal(mean.decide(snapshot('iiii')).target, 2)
  })

  const nonsense = [
    ['throw new Error("no idea")', 'no idea'],
    ['return 7', 'got 7'],
    ['return undefined', 'got undefined'],
    ['return { target: NaN, state: 0, reason: "" }', 'expected { target'],
    ['return { target: 2.5, state: 0, reason: "" }', 'expected { target'],
    ['return { target: 3, state: 0 }', 'expected { target'],
    ['return { target: 3, state: 0, reason: "", lines: [1] }', 'expected { target'],
    ['return { target: 3, state: 0, reason: "", askAgainMicros: "soon" }', 'expected { target'],
    ['return { target: 3, state: 0, reason: "", askAgainMicros: NaN }', 'expected { target'],
    ['return Promise.resolve({ target: 9, state: 0, reason: "" })', 'it has to answer at once'],
    ['return Promise.reject(new Error("later"))', 'it has to answer at once'],
  ] as const
  for (const [body, problem] of nonsense)
    it(`holds the pool, and is reported once, if it is wrong: ${body}`, async () => {
      const broken = await scaler(`export default () => { ${body} }`)
      const [first, second] = [
        broken.decide(snapshot('bbbb')),
        broken.decide(snapshot('bbbb', { target: 3 })),
      ]
      assert.deepEqual([first.target, second.target], [4, 3])
      assert.ok(first.problem?.includes(problem), first.problem)
      assert.equal(second.problem, undefined)
    })

  it('is asked again neither at once nor later than a timer can', async () => {
    const askedAgain = async (micros: string) => {
      const asking = await scaler(
        `export default () => ({ target: 3, reason: '', askAgainMicros: ${micros} })`,
      )
      return asking.decide(snapshot('bbb')).askAgainMicros
    }
    assert.deepEqual(
      await Promise.all(['-5', '0', '30_000', '1e300'].map(askedAgain)),
      [20_000, 20_000, 30_000, 2_147_483_647_000],
    )
  })

  it('is read again once its file has changed', async () => {
    for (const [ending, says] of [
      ['mjs', 'export default'],
      ['cjs', 'module.exports ='],
    ]) {
      const code = (target: number) => `${says} () => ({ target: ${target}, reason: '' })`
      const path = file(code(3), ending)
      const targetOf = async () => new Scaler(await loadAlgorithm(path)).decide(snapshot('bbb')).target
      assert.equal(await targetOf(), 3)
      writeFileSync(path, code(5))
      utimesSync(path, 5, 5) // within the resolution of the clock, too
      assert.equal(await targetOf(), 5)
    }
  })

  it('is refused when the file exports none, or cannot be loaded', async () => {
    const refused = [
      [file('export const scale = () => 1'), /exports no algorithm: .* got scale$/],
      [file('export default {}'), /exports no algorithm/],
      [file('import "./nowhere.mjs"'), /could not be loaded: .*nowhere/],
      [join(directory, 'missing.mjs'), /could not be loaded: .*missing/],
      ['spear', /expected one of spare, .* or a file like .\/mine.mjs, got "spear"/],
    ] as const
    for (const [path, message] of refused)
      await assert.rejects(loadAlgorithm(path), { code: 'ALGORITHM_UNLOADABLE', message })
  })
})

describe('with no living worker', () => {
  /** What those say that differ from the others; `cheap` goes by the tasks alone, which are there. */
  const SAID: Readonly<Record<string, readonly [target: number, reason: string]>> = {
    cheap: [9, '9 waiting or running'],
    manual: [2, 'by hand only'],
  }
  for (const algorithm of ALGORITHMS)
    it(`${algorithm.name} does not treat the backoff of crashed workers as load, and says why`, () => {
      const own = new Scaler(algorithm)
      const runs = new Histogram()
      runs.add(SECOND)
      own.decide(snapshot('bb', { runs, finished: 1, arrived: 1, nowMicros: SECOND, canSpawn: false }))
      for (let second = 2; second < 20; second++) {
        const waiting = { delayed: 2, backlog: 9, arrived: 1, nowMicros: second * SECOND }
        const { target, reason } = own.decide(snapshot('', waiting))
        assert.deepEqual([target, reason], SAID[algorithm.name] ?? [2, 'no worker lives'])
      }
    })
})

describe('the algorithms', () => {
  it('have distinct names, the default first', () => {
    const names = ALGORITHMS.map(({ name }) => name)
    assert.deepEqual(new Set(names).size, names.length)
    assert.equal(names[0], 'spare')
  })
})
