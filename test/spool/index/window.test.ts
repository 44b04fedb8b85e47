import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { COMPARE_TASKS } from '#src/engines/spool/task-order.js'
import { SortedWindow } from '#src/engines/spool/window.js'
import { isLong } from '../../helpers/requires.js'

interface Task {
  readonly ref: string
  readonly time: number
}

function takeAll(window: SortedWindow): string[] {
  const taken: string[] = []
  for (let ref = window.next(); ref !== undefined; ref = window.next()) taken.push(ref)
  return taken
}

const sorted = (order: keyof typeof COMPARE_TASKS, tasks: readonly Task[]) =>
  [...tasks].sort((a, b) => COMPARE_TASKS[order](a.ref, a.time, b.ref, b.time))

const refs = (tasks: readonly Task[]) => tasks.map(({ ref }) => ref)
const isWanted = ({ ref }: Task) => !ref.endsWith('9')

const tasksOf = (priorities: readonly string[]) =>
  fc.uniqueArray(
    fc.record({
      ref: fc
        .tuple(
          fc.constantFrom(...priorities),
          fc.string({ unit: fc.constantFrom(...'0129ab_'), minLength: 1, maxLength: 6 }),
        )
        .map(([priority, name]) => `${priority}t${name}`), // a file 2 would be in the way of a priority 2
      time: fc.integer({ min: 0, max: 20 }),
    }),
    { maxLength: 80, selector: ({ ref }) => ref },
  )

/** Returns distinct numbers in an order that looks random. */
const shuffled = (count: number) => Array.from({ length: count }, (_, i) => (i * 104_729) % 1_000_003)

describe('a window', () => {
  for (const order of ['name', 'age'] as const)
    it(`by ${order} gives the best of all refs that it was shown, in order, and knows that the rest comes after them`, () => {
      fc.assert(
        fc.property(
          tasksOf(['', '1/', '2/', '10/', '2/1/']),
          fc.integer({ min: 1, max: 40 }),
          (tasks, limit) => {
            const window = new SortedWindow(COMPARE_TASKS[order], limit)
            for (const { ref, time } of tasks) window.add(ref, time)
            window.seal(ref => ref.endsWith('9'))
            const best = sorted(order, tasks).slice(0, limit)
            assert.equal(window.isOverflowed, tasks.length > limit)
            for (const beyond of sorted(order, tasks).slice(limit))
              assert.equal(window.isBeforeTheRest(beyond.ref, beyond.time), false)
            assert.equal(window.size, best.filter(isWanted).length)
            assert.deepEqual(takeAll(window), refs(best.filter(isWanted)))
            assert.equal(window.size, 0)
          },
        ),
        { numRuns: 2000 },
      )
    })

  it('by arrival gives the first refs that it was shown as they came, and takes no more than it may hold', () => {
    fc.assert(
      fc.property(tasksOf(['']), fc.integer({ min: 1, max: 40 }), (tasks, limit) => {
        const window = new SortedWindow(COMPARE_TASKS.arrival, limit, true)
        const shown = tasks.slice(
          0,
          tasks.findIndex(({ ref, time }) => !window.add(ref, time)) + 1 || undefined,
        )
        assert.ok(shown.length === limit || (shown.length === tasks.length && shown.length < limit))
        window.seal(ref => ref.endsWith('9'))
        assert.equal(window.isOverflowed, shown.length === limit)
        assert.deepEqual(takeAll(window), refs(sorted('arrival', shown).filter(isWanted)))
      }),
      { numRuns: 2000 },
    )
  })

  it("by age has priorities in uWSGI's order, and each priority in the order of arrival", () => {
    const tasks = [
      { ref: 'b', time: 0 },
      { ref: 'a', time: 1 },
      { ref: '10/c', time: 0 },
      { ref: '9/e', time: 8 },
      { ref: '9/d', time: 9 },
      { ref: '9/1/f', time: 9 },
    ]
    assert.deepEqual(refs(sorted('age', tasks)), ['9/1/f', '9/e', '9/d', '10/c', 'b', 'a'])
  })

  for (const [what, numbers, usual] of [
    ['any order', shuffled(300_000), 'name'],
    ['the worst order', Array.from({ length: 300_000 }, (_, i) => 300_000 - i), 'age'],
  ] as const)
    for (const order of isLong ? (['name', 'age'] as const) : [usual])
      it(`by ${order}, of 300,000 refs in ${what}, keeps the best up to about its limit, and never works for long`, () => {
        const window = new SortedWindow(COMPARE_TASKS[order], 120_000)
        let [longest, total] = [0, 0]
        const timed = (work: () => void) => {
          const before = process.cpuUsage()
          work()
          const { user } = process.cpuUsage(before)
          longest = Math.max(longest, user)
          total += user
        }
        const tasks = numbers.map(time => ({
          ref: `uwsgi_spoolfile_on_host_1234_${time}_840383826_1795238706_994353`,
          time,
        }))
        // a scan reads 2048 names at once
        for (let i = 0; i < tasks.length; i += 2048)
          timed(() => {
            for (const { ref, time } of tasks.slice(i, i + 2048)) window.add(ref, time)
          })
        timed(() => window.seal(undefined))
        assert.ok(window.size >= 120_000 && window.size < 135_000, `${window.size}`)
        const taken = takeAll(window)
        assert.deepEqual(taken, refs(sorted(order, tasks).slice(0, taken.length)))
        // the work has about 150 parts
        assert.ok(longest < total / 2, `${longest} of ${total} µs of CPU time at a stretch`)
      })
})
