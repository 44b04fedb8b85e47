import assert from 'node:assert/strict'
import { closeSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { Emitter } from '#src/base/events/emitter.js'
import { checkConfig } from '#src/doors/check/check.js'
import { openExporter } from '#src/doors/daemon/http-process.js'
import { exporterOptions } from '#src/doors/exporter/messages.js'
import { startDaemon } from '../helpers/daemon.js'
import { childrenOf } from '../helpers/process.js'
import { until } from '../helpers/until.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

const where = { file: 'command line' }
const statsAt = (value: string) =>
  exporterOptions(
    checkConfig({
      environment: {},
      commandLine: [{ key: 'stats', value, where }],
      files: [],
      version: '1.2.3',
    }).options,
  )

/** Opens all descriptors that this process may have. @returns those that have to be closed again */
function useUpDescriptors(): number[] {
  const opened: number[] = []
  try {
    for (;;) opened.push(openSync('/dev/null', 'r'))
  } catch {
    return opened
  }
}

describe('the exporter process', () => {
  it('exists once at most, however fast reloads follow each other, and not after the end', async () => {
    const events = new Emitter()
    const listening: string[] = []
    events.on('exporter-listening', ({ address }) => listening.push(address))
    const exporter = openExporter({ events, log: { fd: 2 } }, () =>
      Promise.reject(new Error('it is not asked')),
    )
    after(() => exporter.serve(undefined))
    void exporter.serve(statsAt('127.0.0.1:0'))
    await until('the exporter listens', () => listening.length === 1)
    void exporter.serve(statsAt('@spoold-test-exporter'))
    await exporter.serve(statsAt('localhost:0'))
    await until('the exporter listens again', () => listening.length >= 2)
    assert.equal(childrenOf(process.pid).length, 1)
    void exporter.serve(statsAt('127.0.0.1:0'))
    await exporter.serve(undefined)
    assert.deepEqual(childrenOf(process.pid), [])
  })

  it('has its last words logged before those of the daemon', async () => {
    const preload = join(workspace(), 'preload.cjs')
    writeFileSync(
      preload,
      `if (process.argv[1]?.endsWith('exporter.cjs'))
        process.on('message', ({ type }) => type === 'close' && process.send({ type: 'trouble', message: 'its last words' }))`,
    )
    const daemon = await startDaemon({
      spool: spoolDirectory(),
      ini: { stats: '127.0.0.1:0' },
      env: { NODE_OPTIONS: `--require=${preload}` },
    })
    await daemon.waitFor(/Stats server enabled/)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.match(daemon.output, /its last words.*\n.*goodbye to uWSGI\.\n$/)
  })

  it('is tried again when there is no descriptor left for it, and does not hold up the end', async () => {
    const events = new Emitter()
    const troubles: string[] = []
    events.on('exporter-trouble', ({ message }) => troubles.push(message))
    const snapshot = () => Promise.reject(new Error('it is not asked'))
    const exporter = openExporter({ events, log: { fd: 2 } }, snapshot)
    const opened = useUpDescriptors()
    try {
      await exporter.serve(statsAt('127.0.0.1:0'))
    } finally {
      for (const fd of opened) closeSync(fd)
    }
    await until('the exporter says that it is started again', () =>
      troubles.some(message => message.includes('is started again in')),
    )
    await exporter.serve(undefined)
    assert.deepEqual(childrenOf(process.pid), [])
  })
})
