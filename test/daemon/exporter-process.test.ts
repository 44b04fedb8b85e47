import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { checkConfig } from '#src/config/check.js'
import { ExporterProcess } from '#src/daemon/exporter-process.js'
import { Emitter } from '#src/events/emitter.js'
import { childrenOf } from '../helpers/process.js'
import { until } from '../helpers/until.js'

const where = { file: 'command line' }
const statsAt = (value: string) =>
  checkConfig({
    environment: {},
    commandLine: [{ key: 'stats', value, where }],
    files: [],
    version: '1.2.3',
  }).options

describe('the process that publishes', () => {
  it('is one at most, however fast reloads follow one another, and none after the end', async () => {
    const events = new Emitter()
    const listening: string[] = []
    events.on('exporter-listening', ({ address }) => listening.push(address))
    const exporter = new ExporterProcess({
      events,
      log: { fd: 2 },
      snapshot: () => Promise.reject(new Error('it is not asked')),
    })
    after(() => exporter.stop())
    void exporter.serve(statsAt('127.0.0.1:0'))
    await until('it listens', () => listening.length === 1)
    void exporter.serve(statsAt('@spoold-test-exporter'))
    await exporter.serve(statsAt('localhost:0'))
    await until('it listens again', () => listening.length >= 2)
    assert.equal(childrenOf(process.pid).length, 1)
    void exporter.serve(statsAt('127.0.0.1:0'))
    await exporter.stop()
    assert.deepEqual(childrenOf(process.pid), [])
  })
})
