import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { treeMemoryOf } from '#src/system/tree-memory.js'
import { checks, lines, present, put, ready, scaledTo, startScaled, stop } from '../helpers/adaptive.js'
import { leftIn } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const MB = 1024 * 1024
const pids = (daemon: Parameters<typeof lines>[0]) => lines(daemon, 'start').map(([, pid]) => Number(pid))

describe('the memory of all processes', () => {
  it('at the hard limit sends idle ones home, one per check, to the minimum; at the soft one no more come', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, {
      'cheaper-algo': 'backlog',
      'cheaper-overload': 1,
      cheaper: 1,
      workers: 4,
      'cheaper-rss-limit-soft': 350 * MB,
      'cheaper-rss-limit-hard': 500 * MB,
    })
    const [first] = daemon.children()
    assert.ok(first !== undefined && treeMemoryOf(first).rssBytes > 20 * MB)
    put(spool, 3, { mb: '300', ms: '50' })
    await until('one of them has it', () => lines(daemon, 'end').length > 0)
    await until('all have run', () => leftIn(spool).length === 0)
    await daemon.waitFor(/cheaper hard rss memory limit exceeded, cheap one of \d workers/)
    await until('there is one', async () => (await present(spool)) === 1)
    // the one that is left has too much on its own: it stays, and brings no other
    const grown = scaledTo(daemon).length
    put(spool, 20, { ms: '30' })
    await until('they have run', () => leftIn(spool).length === 0)
    const rss = daemon.children().reduce((sum, pid) => sum + treeMemoryOf(pid).rssBytes, 0)
    if (rss >= 350 * MB) assert.equal(scaledTo(daemon).length, grown)
    assert.doesNotMatch(daemon.output, /OOOPS/)
    await stop(daemon)
  })
})

describe('the memory of one process', () => {
  it('over reload-on-rss replaces it after the task that took it, and only then', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, { 'reload-on-rss': 250, 'min-worker-lifetime': 0 })
    put(spool, 5)
    await until('they have run', () => leftIn(spool).length === 0)
    const [before] = daemon.children()
    assert.deepEqual(new Set(pids(daemon)), new Set([before]))
    put(spool, 1, { mb: '300', ms: '100' })
    await daemon.waitFor(/\] reload-on-rss limit reached \(\d+ >= 262144000\) recycling \.\.\./)
    await until('another is there', () => daemon.children().length === 1 && daemon.children()[0] !== before)
    assert.equal(lines(daemon, 'end').length, 6)
    put(spool, 1)
    await until('it has run', () => lines(daemon, 'end').length === 7)
    assert.notEqual(pids(daemon).at(-1), before)
    assert.doesNotMatch(daemon.output, /OOOPS|process(es)?, not/)
    await stop(daemon)
  })

  it('of a young one is left alone', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, { 'reload-on-rss': 1, 'min-worker-lifetime': 1000 })
    put(spool, 5)
    await until('they have run', () => lines(daemon, 'end').length === 5)
    assert.equal(new Set(pids(daemon)).size, 1)
    assert.doesNotMatch(daemon.output, /recycling/)
    await stop(daemon)
  })

  it('over evil-reload-on-rss kills it in its task, which counts as crashed', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, { 'evil-reload-on-rss': 250, 'spooler-max-crashes': 1 })
    put(spool, 1, { mb: '300', ms: '60000' })
    await daemon.waitFor(/\*\*\* EVIL RELOAD ON WORKER 1 RSS: \d+ \(pid: \d+\) \*\*\*/)
    await daemon.waitFor('its process had more memory than evil-reload-on-rss allows')
    put(spool, 1)
    await until('another runs the next', () => lines(daemon, 'end').length === 1)
    assert.equal(new Set(pids(daemon)).size, 2)
    await stop(daemon)
  })

  it('has that of its programs in it', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, {})
    const [worker = 0] = daemon.children()
    const alone = treeMemoryOf(worker).rssBytes
    assert.ok(treeMemoryOf(daemon.pid).rssBytes > alone)
    assert.deepEqual(treeMemoryOf(2 ** 22 + 1), { rssBytes: 0, vszBytes: 0 })
    await stop(daemon)
  })
})

describe('max-worker-lifetime', () => {
  it('replaces each in turn after what it runs, and the number stays', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, {
      'spooler-processes': 2,
      'max-worker-lifetime': 1.5,
      'max-worker-lifetime-delta': 1,
      'min-worker-lifetime': 0,
    })
    await until('both are ready', async () => (await ready(spool)) === 2)
    const first = daemon.children()
    put(spool, 1, { ms: '2500' })
    await until('it runs', () => lines(daemon, 'start').length === 1)
    await daemon.waitFor(/worker 1 lifetime reached, it was running for \d+ second\(s\)/)
    await daemon.waitFor(/worker 2 lifetime reached, it was running for [2-9]\d* second\(s\)/)
    await until('it has ended', () => leftIn(spool).length === 0)
    await until('others are there', () => !daemon.children().some(pid => first.includes(pid)))
    assert.equal(lines(daemon, 'start').length, 1)
    assert.doesNotMatch(daemon.output, /OOOPS|NO MERCY|process(es)?, not/)
    await until('the number is the same', async () => (await present(spool)) === 2)
    await stop(daemon)
  })

  it('and everything else that is not configured does not tick', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, {})
    await until('some checks would have been made', checks(4))
    assert.deepEqual(scaledTo(daemon), [])
    await stop(daemon)
  })
})
