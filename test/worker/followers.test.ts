import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { WorkerClaims } from '#src/engines/claims.js'
import { Followers } from '#src/runtime/worker/followers.js'

const SLOTS = { name: 'few', count: 3 }
const given = (...numbers: number[]) =>
  numbers.map(number => ({
    ...{ number, ref: `t${number}`, lastRun: undefined },
    ...{ isLast: false, isItsTurn: false, isTaken: false },
  }))

/** @param held how many slots the worker has */
function followersOf(held: number) {
  const slots = { held, kept: 0 }
  const own: WorkerClaims['slots'] = {
    refresh() {},
    heldOf: () => slots.held,
    dropKept: () => {
      if (slots.kept === 0) return false
      slots.kept--
      slots.held--
      return true
    },
  }
  const followers = new Followers(own)
  /** Does with a slot what the settling of a task does. */
  const end = (ranMs = 1) => {
    if (followers.ended(SLOTS, ranMs)) slots.kept++
    else slots.held--
  }
  const begin = () => {
    const number = followers.pop()?.number
    if (number === undefined) return undefined
    followers.began(number, SLOTS)
    if (slots.kept > 0) slots.kept--
    else slots.held++
    return number
  }
  return { followers, slots, end, begin }
}

describe('tasks of one name in one worker', () => {
  it('follow each other in the slots of the worker, which asks for one per free slot and one behind each', () => {
    const { followers, slots, end, begin } = followersOf(2)
    end()
    assert.deepEqual(followers.takeNews(), { wishes: [{ ...SLOTS, wanted: 3 }] }) // one for the free slot, and one behind each
    followers.add('few', given(1, 2, 3))
    assert.equal(begin(), 1)
    assert.deepEqual([begin(), slots.held, followers.takeNews()], [undefined, 2, { following: 2 }])
    for (const number of [2, 3]) {
      end()
      assert.deepEqual([begin(), slots.held, slots.kept], [number, 2, 0])
    }
    assert.deepEqual(followers.takeNews(), { wishes: [{ ...SLOTS, wanted: 2 }] })
  })

  it('are asked for once per free slot, however many ended and were replaced by the master', () => {
    const { followers, slots, end } = followersOf(1)
    for (let number = 0; number < 100; number++) {
      end()
      followers.began(number, SLOTS) // given by the master as any other
      slots.held++
    }
    end()
    assert.deepEqual(followers.takeNews(), { wishes: [{ ...SLOTS, wanted: 2 }] }) // as above
  })

  it('have no other task behind them if they take long', () => {
    const { followers, end } = followersOf(1)
    end(41)
    assert.deepEqual(followers.takeNews(), { wishes: [{ ...SLOTS, wanted: 1 }] })
  })

  it('are ready at once if the worker holds no slot in which to follow', () => {
    const { followers } = followersOf(0)
    followers.add('few', given(1, 2))
    assert.deepEqual([followers.ready, followers.following], [2, 0])
  })

  it('leave the slot to the next task if they do not begin, and give it back if there is none', () => {
    const { followers, slots, end } = followersOf(1)
    followers.add('few', given(1, 2))
    end()
    const gone = { kind: 'gone', ranMs: 0 } as const
    assert.equal(followers.pop()?.number, 1)
    assert.deepEqual(followers.refused(1, { ref: 't1', ...gone }), { ref: 't1', ...gone })
    assert.deepEqual([followers.pop()?.number, slots.kept], [2, 1])
    const report = followers.refused(2, { ref: 't2', ...gone })
    assert.deepEqual([report, slots.held], [{ ref: 't2', ...gone, slots: SLOTS }, 0])
  })

  it('give the slot back if they have to be alone, because only another worker can run them', () => {
    const { followers, slots, end } = followersOf(1)
    followers.add('few', given(1, 2))
    end()
    const alone = { ref: 't1', kind: 'parked', reason: 'alone', ranMs: 0 } as const
    assert.deepEqual(followers.refused(followers.pop()?.number ?? 0, alone), { ...alone, slots: SLOTS })
    assert.deepEqual(
      [slots.held, followers.pop()?.number],
      [0, 2],
      'the slot is given back, and the next task does not wait for it',
    )
  })

  it('give the slot back if they are withdrawn', () => {
    const { followers, slots, end } = followersOf(1)
    followers.add('few', given(1, 2))
    end()
    for (const { number, ref } of followers.drop())
      followers.refused(number, { ref, kind: 'untouched', ranMs: 0 })
    assert.deepEqual([slots.held, followers.ready, followers.following], [0, 0, 0])
  })
})
