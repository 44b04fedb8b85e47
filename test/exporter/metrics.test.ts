import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { ask, exporterOf } from '../helpers/exporter.js'
import { drop, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const HANDLER = `export default env => {
  if (env.do === 'throw') throw new Error('no')
  if (env.do === 'bury') return { bury: 'never' }
  return env.do === 'hang' ? new Promise(() => {}) : -2
}`

async function portOf(daemon: Daemon): Promise<number> {
  const enabled = () => /metrics enabled on 127\.0\.0\.1:([0-9]+)/.exec(daemon.output)?.[1]
  return Number(await until('the metrics are published', enabled))
}

/** Returns the sum of the series that begin with `start`. */
const sumOf = (text: string, start: string) =>
  text
    .split('\n')
    .filter(line => line.startsWith(start))
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)

describe('spooler-metrics', () => {
  it('counts tasks of each kind, in a page that promtool accepts', {
    skip: skipUnless('promtool'),
  }, async () => {
    const spool = spoolDirectory()
    const ini = {
      'spooler-metrics': '127.0.0.1:0',
      'spooler-processes': 2,
      'worker-reload-mercy': 1,
      'spooler-retry-delay': 3600,
    }
    const daemon = await startDaemon({ spool, ini, handler: HANDLER })
    const port = await portOf(daemon)
    await until('the first answer', async () => (await ask(port, '/metrics')).status === 200)
    for (const what of ['done', 'done', 'throw', 'bury', 'hang']) drop(spool, undefined, packet({ do: what }))
    const text = await until('four tasks have run', async () => {
      const page = await ask(port, '/metrics')
      const ran = sumOf(page.text, 'spooler_runs_total{') === 4
      return ran && sumOf(page.text, 'spooler_dead_letters{') === 1 ? page.text : undefined
    })
    const label = `spool="${spool}"`
    assert.equal(sumOf(text, `spooler_runs_total{${label},result="done"}`), 2)
    assert.equal(sumOf(text, `spooler_runs_total{${label},result="error"}`), 1)
    assert.equal(sumOf(text, `spooler_dead_letters{${label},reason="asked"}`), 1)
    assert.equal(sumOf(text, `spooler_tasks{${label},state="waiting"}`), 1)
    await until('the measured runs arrive', async () =>
      sumOf((await ask(port, '/metrics')).text, `spooler_run_duration_seconds_count{${label}}`) === 4
        ? true
        : undefined,
    )
    drop(spool, undefined, packet({ do: 'done', at: String(Math.floor(Date.now() / 1000) + 86_400) }))
    drop(spool, undefined, Buffer.from('no packet'))
    await until('one task waits for a retry, one waits for tomorrow, and one file is no task', async () => {
      const page = await ask(port, '/metrics')
      const [later, unreadable, unseen] = ['later', 'unreadable', 'unseen'].map(kind =>
        sumOf(page.text, `spooler_${kind}_tasks{${label}}`),
      )
      return later === 2 && unreadable === 1 && unseen === 0 ? true : undefined
    })
    const last = await until('the fifth task runs', async () => {
      const page = await ask(port, '/metrics')
      return sumOf(page.text, `spooler_tasks{${label},state="running"}`) === 1 ? page : undefined
    })
    assert.equal(sumOf(last.text, `spooler_workers{${label},state="busy"}`), 1)
    assert.equal(last.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8')
    assert.equal(execFileSync('promtool', ['check', 'metrics'], { input: last.text, encoding: 'utf8' }), '')
  })

  it('answers in OpenMetrics when asked, only at /metrics and only under its own name', async () => {
    const spool = spoolDirectory()
    const port = await portOf(await startDaemon({ spool, ini: { 'spooler-metrics': '127.0.0.1:0' } }))
    const open = await ask(port, '/metrics?x=1', { accept: 'application/openmetrics-text; version=1.0.0' })
    assert.equal(open.headers['content-type'], 'application/openmetrics-text; version=1.0.0; charset=utf-8')
    assert.ok(open.text.endsWith('# EOF\n'))
    assert.equal(open.headers['access-control-allow-origin'], undefined)
    const statuses = await Promise.all([
      ask(port, '/'),
      ask(port, '/metrics', { host: 'rebound.example' }),
      ask(port, '/metrics', {}, 'POST'),
    ])
    assert.deepEqual(
      statuses.map(({ status }) => status),
      [404, 421, 405],
    )
  })

  it('does not start on an address that others can reach', async () => {
    const ini = { 'spooler-metrics': '0.0.0.0:0' }
    const refused = await startDaemon({ spool: spoolDirectory(), ini, isUnready: true })
    const expected = /app\.ini:\d+: error: spooler-metrics: whoever can reach 0\.0\.0\.0:0 would read it/
    await until('the error is printed', () => expected.test(refused.output))
    assert.equal(await refused.code(), 1)
  })
})

describe('spooler-metrics-file', () => {
  it('is written whole, readable for others, and removed at the end', async () => {
    const spool = spoolDirectory()
    const file = join(dirname(spool), 'spoold.prom')
    const daemon = await startDaemon({ spool, ini: { 'spooler-metrics-file': file, umask: '077' } })
    await until('the file is written', () => existsSync(file))
    assert.match(
      readFileSync(file, 'utf8'),
      /^spooler_schedule_leadership|^spooler_disk_size_bytes\{.*\} [0-9]+$/m,
    )
    assert.equal(statSync(file).mode & 0o777, 0o644)
    assert.deepEqual(
      readdirSync(dirname(spool)).filter(name => name.includes('.prom')),
      ['spoold.prom'],
    )
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.equal(existsSync(file), false)
  })

  it('is reported in the log if it cannot be written, while tasks run', async () => {
    const spool = spoolDirectory()
    const file = join(dirname(spool), 'missing', 'spoold.prom')
    const daemon = await startDaemon({ spool, ini: { 'spooler-metrics-file': file } })
    await until('the line is logged', () => daemon.output.includes('spoold.prom is not written: ENOENT'))
    drop(spool, undefined, packet({ a: '1' }))
    await until('the task has run', () => daemon.journal().length === 1)
    assert.ok(exporterOf(daemon) !== undefined)
  })
})
