import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import type { Lease } from '#src/base/task/schedule.js'
import { Leadership } from '#src/runtime/schedule/leadership.js'
import { until } from '../helpers/until.js'

describe('the leadership', () => {
  const opened: Leadership[] = []
  afterEach(async () => {
    for (const leadership of opened.splice(0)) await leadership.stop()
  })

  /** @param answers what each attempt to take the lease leads to; the last answer stays */
  function open(...answers: ReadonlyArray<Partial<Lease> | 'taken' | Error>) {
    const calls: string[] = []
    let attempts = 0
    let hooks = { lost() {}, renewed() {} }
    const leadership = new Leadership({
      async take({ lost, renewed }) {
        hooks = { lost, renewed }
        const answer = answers[Math.min(attempts++, answers.length - 1)]
        if (answer instanceof Error) throw answer
        if (answer === 'taken' || answer === undefined) return undefined
        const release = async () => void calls.push('released')
        return { validUntilMs: 1000, isTakenOver: false, release, ...answer }
      },
      changed: isLeading => void calls.push(isLeading ? 'leads' : 'waits'),
      failed: error => void calls.push(error),
    })
    opened.push(leadership)
    return { leadership, calls, attempts: () => attempts, hooks: () => hooks }
  }

  it('lasts as long as the lease is valid, and not an instant longer', async () => {
    const { leadership, calls } = open({ validUntilMs: 1000 })
    assert.equal(leadership.leadsAt(0), false)
    await until('the daemon leads', () => calls.includes('leads'))
    assert.deepEqual([leadership.leadsAt(999), leadership.leadsAt(1000)], [true, false])
  })

  it('is waited for while another daemon has the lease, which is reported once', async () => {
    const { leadership, calls, attempts } = open('taken', 'taken', {})
    await until('the daemon waits', () => calls.includes('waits'))
    assert.equal(leadership.leadsAt(0), false)
    await until('the daemon leads', () => calls.includes('leads'))
    assert.deepEqual(calls, ['waits', 'leads'])
    assert.equal(attempts(), 3)
  })

  it('that is taken over from a daemon that is gone begins at the first renewal: others may have tried, too', async () => {
    const { leadership, calls, hooks } = open({ isTakenOver: true })
    await until('the lease has been asked for', () => !leadership.isDecided && calls.length === 0)
    await new Promise(resolve => setImmediate(resolve))
    assert.equal(leadership.leadsAt(0), false)
    hooks().renewed()
    assert.equal(leadership.leadsAt(0), true)
    hooks().renewed()
    assert.deepEqual(calls, ['leads'])
  })

  it('ends when the lease is lost, and is asked for again', async () => {
    const { leadership, calls, hooks } = open({}, 'taken')
    await until('the daemon leads', () => calls.includes('leads'))
    hooks().lost()
    assert.deepEqual([leadership.leadsAt(0), leadership.isDecided], [false, false])
    await until('the daemon waits', () => calls.includes('waits'))
  })

  it('is asked for again if the lease cannot be taken, and the error is reported once', async () => {
    const { calls, attempts } = open(new Error('EROFS'), new Error('EROFS'), {})
    await until('the daemon leads', () => calls.includes('leads'))
    assert.deepEqual(calls, ['EROFS', 'leads'])
    assert.equal(attempts(), 3)
  })

  it('tells an error again that comes back after another daemon was found to lead', async () => {
    const { calls } = open(new Error('EROFS'), 'taken', new Error('EROFS'), {})
    await until('the daemon leads', () => calls.includes('leads'))
    assert.deepEqual(calls, ['EROFS', 'waits', 'EROFS', 'leads'])
  })

  it('does not keep a stop waiting for long if nobody answers', { timeout: 60_000 }, async () => {
    const silent = new Promise<never>(() => {})
    const { leadership, calls } = open({ release: () => silent })
    await until('the daemon leads', () => calls.includes('leads'))
    await leadership.stop()
    const asking = new Leadership({ take: () => silent, changed() {}, failed() {} })
    await asking.stop()
    assert.deepEqual([leadership.state, asking.state], ['stopped', 'stopped'])
  })

  it('is given back at a stop, even if the lease arrives only then', async () => {
    const { leadership, calls } = open({})
    await leadership.stop()
    assert.deepEqual(calls, ['released'])
    assert.equal(leadership.leadsAt(0), false)
  })
})
