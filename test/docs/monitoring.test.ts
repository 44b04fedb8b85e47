import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { fullName } from '#src/doors/exporter/exposition.js'
import { METRICS } from '#src/doors/exporter/metrics.js'
import { skipUnless } from '../helpers/requires.js'
import { ROOT, workspace } from '../helpers/workspace.js'

const DIRECTORY = join(ROOT, 'docs/monitoring')
const read = (name: string) => readFileSync(join(DIRECTORY, name), 'utf8')
const promtool = (...args: string[]) =>
  execFileSync('promtool', args, { cwd: DIRECTORY, encoding: 'utf8', stdio: 'pipe' })

const SUFFIXES = ['', '_bucket', '_sum', '_count']
const published = new Set(
  METRICS.flatMap(metric =>
    metric.type === 'histogram' ? SUFFIXES.map(suffix => fullName(metric) + suffix) : [fullName(metric)],
  ),
)

describe('docs/monitoring', () => {
  it('has alert rules that each fire in alerts.test.yml', { skip: skipUnless('promtool') }, () => {
    assert.match(promtool('check', 'rules', 'alerts.yml'), /SUCCESS: [0-9]+ rules found/)
    assert.match(promtool('test', 'rules', 'alerts.test.yml'), /SUCCESS/)
    const alerts = [...read('alerts.yml').matchAll(/- alert: (\w+)/g)].map(([, name = '']) => name)
    assert.ok(alerts.length > 0)
    for (const name of alerts)
      assert.match(
        read('alerts.test.yml'),
        new RegExp(`alertname: ${name}\n +exp_alerts:\n`),
        `${name} does not fire in alerts.test.yml`,
      )
  })

  for (const file of ['alerts.yml', 'grafana.json'])
    it(`${file} asks for metrics that exist`, () => {
      const asked = [...new Set(read(file).match(/\bspooler_\w+/g))]
      assert.ok(asked.length > 5)
      assert.deepEqual(
        asked.filter(name => !published.has(name)),
        [],
      )
    })

  it('has a dashboard whose queries promtool can read', { skip: skipUnless('promtool') }, () => {
    const { panels } = JSON.parse(read('grafana.json'))
    const queries: string[] = panels.flatMap(({ targets }: { targets: Array<{ expr: string }> }) =>
      targets.map(({ expr }) => expr),
    )
    assert.ok(queries.length > 10)
    const rules = queries.map(query => ({ record: 'a:b', expr: query.replaceAll('$__rate_interval', '5m') }))
    const file = join(workspace(), 'queries.json')
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'g', rules }] }))
    const checked = promtool('check', 'rules', '--lint=none', file)
    assert.match(checked, new RegExp(`SUCCESS: ${queries.length} rules found`))
  })
})
