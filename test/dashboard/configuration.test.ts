import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { askDaemon } from '#src/engines/control/client.js'
import { controlOf } from '../helpers/control.js'
import { Browser, startDashboard, type TestDashboard } from '../helpers/dashboard.js'
import { until } from '../helpers/until.js'

const SECRET = 'zq31'
const NASTY = '<script>alert(1)</script>'

const started = () =>
  startDashboard({
    ini: {
      'spooler-frequency': 7,
      'spooler-hide': 'pin',
      env: `KEY=${SECRET}`,
      cron: `0 3 1 1 * post pin=${SECRET} ${NASTY}`,
      'spooler-alarm': `url=https://127.0.0.1:1/${SECRET},max-due=100000`,
      'master-fifo': `run/${NASTY.replaceAll('/', '')}.fifo`,
    },
    args: ['--spooler-processes', '2'],
    env: { ...process.env, SPOOLD_SPOOLER_GRACE: '90' },
  })

async function pageFor(dashboard: TestDashboard, ...who: Parameters<TestDashboard['tokenOf']>) {
  const browser = new Browser(dashboard.place)
  await browser.logIn(dashboard.tokenOf(...who))
  const { status, text } = await browser.get('/configuration')
  assert.equal(status, 200, text)
  return text
}

/** The cells of each row of the tables in a page, without markup. */
function rowsIn(page: string): string[] {
  return [...page.matchAll(/<tr.*?<\/tr>/gs)].map(([row]) =>
    [...row.matchAll(/<td[^>]*>(.*?)<\/td>/gs)]
      .map(([, cell = '']) => cell.replace(/<[^>]+>/g, ''))
      .join(' | '),
  )
}

describe('the page of the configuration', () => {
  it('shows an admin the value of each option and where it was written, without secrets', async () => {
    const dashboard = await started()
    const page = await pageFor(dashboard, 'admin', true)
    const rows = rowsIn(page)
    const { iniFile } = dashboard.daemon
    const lineOf = (text: string) =>
      readFileSync(iniFile, 'utf8')
        .split('\n')
        .findIndex(line => line.startsWith(text)) + 1
    const row = (option: string) => rows.filter(each => each.startsWith(`${option} | `))
    assert.deepEqual(row('spooler'), [`spooler | ${dashboard.spool} | ${iniFile}:${lineOf('spooler =')}`])
    assert.deepEqual(row('spooler-frequency'), [
      `spooler-frequency | 7 | ${iniFile}:${lineOf('spooler-freq')}`,
    ])
    assert.deepEqual(row('spooler-processes'), ['spooler-processes | 2 | command line'])
    assert.deepEqual(row('spooler-grace'), ['spooler-grace | 90 | environment SPOOLD_SPOOLER_GRACE'])
    assert.deepEqual(row('spooler-max-crashes'), ['spooler-max-crashes | 3'])
    assert.deepEqual(row('env'), [`env | KEY=[hidden] | ${iniFile}:${lineOf('env')}`])
    assert.match(row('cron').join(), /\| 0 3 1 1 \* post pin=\[hidden\] &lt;script&gt;alert/)
    assert.match(row('spooler-alarm').join(), /\| url=\[hidden\],max-due=100000 \|/)
    assert.ok(!page.includes(SECRET))
    assert.doesNotMatch(page, /<script>alert/)
    assert.match(page, /Defaults of [0-9]+ other options/)
  })

  it('shows commands only to those who may read payloads, and options only to admins', async () => {
    const dashboard = await started()
    const admin = await pageFor(dashboard, 'admin')
    assert.doesNotMatch(admin, /3 1 1/)
    assert.match(rowsIn(admin).join('\n'), /^cron \| a command, for those who may read payloads \|/m)
    for (const role of ['viewer', 'operator'] as const) {
      const page = await pageFor(dashboard, role, true)
      assert.doesNotMatch(page, /spooler-frequency|SPOOLD_SPOOLER_GRACE|max-due/)
      assert.match(page, /The values of options are for admins/)
    }
  })

  it('shows the values in use: before and after a reload, after a refused one, and before a restart', async () => {
    const dashboard = await started()
    const { daemon } = dashboard
    const rows = async () => rowsIn(await pageFor(dashboard, 'admin', true))
    const written = readFileSync(daemon.iniFile, 'utf8')
    const reload = async (end: RegExp) => {
      const before = daemon.output.length
      daemon.child.kill('SIGHUP')
      await until('the reload has ended', () => end.test(daemon.output.slice(before)))
    }
    writeFileSync(daemon.iniFile, written.replace('spooler-frequency = 7', 'spooler-frequency = no'))
    assert.ok(
      (await rows()).some(row => row.startsWith('spooler-frequency | 7 ')),
      'before the reload',
    )
    await reload(/the reload is rejected/)
    assert.ok(
      (await rows()).some(row => row.startsWith('spooler-frequency | 7 ')),
      'after a refused one',
    )
    writeFileSync(
      daemon.iniFile,
      written
        .replace('spooler-frequency = 7', 'spooler-frequency = 8')
        .replace(/master-fifo.*/, 'listen = 77'),
    )
    await reload(/the spoolers are reloaded/)
    const now = await rows()
    assert.ok(now.some(row => row.startsWith('spooler-frequency | 8 ')))
    assert.ok(!now.some(row => row.startsWith('spooler-frequency | 7 ')))
    const page = await pageFor(dashboard, 'admin', true)
    const [waiting = '', rest = ''] = page.slice(page.indexOf('Waiting for a restart')).split('</section>', 2)
    assert.match(rowsIn(waiting).join('\n'), /^listen \| 77 \| .*app\.ini:\d+$/m)
    assert.match(rowsIn(waiting).join('\n'), /^master-fifo \| not set \| default$/m)
    assert.match(rowsIn(rest).join('\n'), /^master-fifo \| run\//m)
    assert.ok(now.includes('listen | 4096'), now.join('\n'))
  })

  it('needs the verb config, which a control socket with role=viewer refuses', async () => {
    const { spool, daemon } = await startDashboard({
      ini: { 'spooler-control': './run/view.sock,role=viewer' },
    })
    const told = (path: string) => askDaemon(path, 'config', {})
    assert.ok(await told(controlOf(spool)))
    await assert.rejects(told(`${daemon.directory}/run/view.sock`), /config is for operators/)
  })
})
