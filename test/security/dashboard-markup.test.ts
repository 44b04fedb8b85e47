import assert from 'node:assert/strict'
import { readdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { before, describe, it } from 'node:test'
import { toFsPath } from '#src/base/task/ref.js'
import { PAGES } from '#src/doors/dashboard/pages/index.js'
import { urlTextOf } from '#src/doors/dashboard/spools.js'
import { readAudit } from '#src/engines/spool/admin/audit.js'
import { urlOf, windowOf } from '../helpers/browser.js'
import { give, startDashboard, type TestDashboard } from '../helpers/dashboard.js'
import { packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'

const LATER = 4_000_000_000
const evil = (where: string) => `<img src=x onerror=alert(1) class=evil title=${where}>`
/** Latin-1, which is not valid UTF-8. */
const FRENCH = 't\xe2che-\xe9t\xe9'

const HANDLER = `
export default async (env, task) => {
  if (env.hangs) await new Promise(() => setInterval(() => {}, 1000))
  if (env.fails) throw new Error(env.fails)
  return task.SPOOL_OK
}`

/** Stores a task under a name of any bytes, one character per byte. */
function store(
  spool: string,
  name: string,
  vars: Readonly<Record<string, string>>,
  body = '',
  atSeconds?: number,
): void {
  const hidden = join(dirname(spool), '.dropping')
  const due = atSeconds === undefined ? {} : { at: String(atSeconds) }
  writeFileSync(hidden, packet({ ...vars, ...due }, body), { mode: 0o600 })
  give(hidden)
  renameSync(hidden, toFsPath(`${spool}/${name}`))
}

const namesIn = (directory: string) => readdirSync(directory, { encoding: 'latin1' })

describe('untrusted text in a browser', { skip: skipUnless('chromium') }, () => {
  let at: TestDashboard
  const started = startDashboard({
    handler: HANDLER,
    ini: {
      'spooler-dashboard-enqueue': true,
      'spooler-retry-delay': 3600,
      'spooler-processes': 2,
    },
  })
  before(async () => {
    at = await started
    const { spool } = at
    store(spool, evil('name').replaceAll('/', ''), { [evil('key')]: evil('value') }, evil('body'), LATER)
    store(
      spool,
      'json',
      { task: evil('task'), args: JSON.stringify([evil('args')]) },
      `{"a":"${evil('json')}"}`,
      LATER,
    )
    store(spool, evil('failed'), { fails: evil('error') })
    store(spool, evil('runs'), { hangs: evil('hangs') })
    await until('one task runs, and one has failed', async () => {
      const { daemon } = at
      return daemon.output.includes('managing request') && daemon.output.includes('alert(1)')
    })
  })

  const admin = () => windowOf(at, at.tokenOf('admin', true))
  const pathsOf = (ref: string) =>
    PAGES.map(({ path }) => path)
      .filter(path => !path.endsWith('/body'))
      .map(path => path.replace(':spool', at.id).replace(':ref', urlTextOf(ref)).replace(':action', 'hold'))

  it('is shown as text, not as markup: names, keys, values, bodies, errors and the audit', async () => {
    const { page, complaints } = await admin()
    const refs = namesIn(at.spool).filter(name => name.startsWith('<') || name === 'json')
    assert.ok(refs.length >= 3, refs.join())
    const seen = new Set<string>()
    const look = async (path: string) => {
      await page.goto(urlOf(at, path))
      assert.equal(await page.locator('.evil, img, iframe, object, embed').count(), 0, path)
      assert.equal(await page.locator('script:not([src^="/assets/"])').count(), 0, path)
      const text = (await page.locator('body').textContent()) ?? ''
      for (const [, where = ''] of text.matchAll(/class=evil title=(\w+)>/g)) seen.add(where)
    }
    for (const ref of refs) for (const path of pathsOf(ref)) await look(path)
    await look(`/spools/${at.id}/find?grep=${encodeURIComponent(evil('value'))}`)
    await look(`/spools/${at.id}/waiting?show=later`)
    await look(`/spools/${at.id}/bulk/hold?key=${encodeURIComponent(`a=${evil('filter')}`)}`)
    await page.goto(
      urlOf(at, `/spools/${at.id}/find?state=waiting&grep=${encodeURIComponent(evil('value'))}`),
    )
    await page.locator('a.button', { hasText: 'Hold' }).click()
    await page.getByRole('button', { name: /^Hold: / }).click()
    await page.locator('p.notice').waitFor()
    await look(`/spools/${at.id}/held`)
    await page.locator('input[name=ref]').first().check()
    await page.getByRole('button', { name: 'Bury…' }).last().click()
    await page.getByRole('button', { name: 'Bury: 1 task' }).click()
    await look(`/spools/${at.id}/audit`)
    const audited = await page.locator('td[data-label=On]').allTextContents()
    for (const where of ['name', 'value'])
      assert.ok(
        audited.some(text => text.includes(`class=evil title=${where}`)),
        audited.join('\n'),
      )
    const all = [
      'name',
      'key',
      'value',
      'body',
      'task',
      'args',
      'json',
      'failed',
      'error',
      'runs',
      'hangs',
      'filter',
    ]
    assert.deepEqual(
      all.filter(where => !seen.has(where)),
      [],
      'these texts are on no page',
    )
    assert.deepEqual(complaints, [])
    await page.context().close()
  })

  it('may be a task name that is not UTF-8, and clicks open, hold, remove and cancel that task', async () => {
    store(at.spool, `${FRENCH}-1`, { n: '1' }, '', LATER)
    store(at.spool, `${FRENCH}-2`, { hangs: 'yes' })
    const { page, complaints } = await admin()
    const link = (n: number) => page.locator(`a[href$="/tasks/${urlTextOf(`${FRENCH}-${n}`)}"]`)
    await until('the task is listed', async () => {
      await page.goto(urlOf(at, `/spools/${at.id}/waiting?show=later`))
      return (await link(1).count()) > 0
    })
    await link(1).click()
    await page.getByRole('button', { name: 'Hold', exact: true }).click()
    await page.getByText('held', { exact: true }).first().waitFor()
    const records = join(at.spool, '.spoold/records')
    assert.ok(namesIn(records).includes(`${FRENCH}-1.json`), namesIn(records).join())
    await link(1).waitFor()
    await page.locator(`input[name=ref][value="${urlTextOf(`${FRENCH}-1`)}"]`).check()
    await page.getByRole('button', { name: 'Remove…' }).last().click()
    await page.locator('input[name=typed]').fill('1')
    await page.getByRole('button', { name: 'Remove: 1 task' }).click()
    await page.getByText('1 removed').waitFor()
    assert.ok(!namesIn(at.spool).includes(`${FRENCH}-1`))
    assert.match(readAudit(at.spool, 1)[0]?.task ?? '', /-1$/)
    await until('the other task runs', async () => {
      await page.goto(urlOf(at, `/spools/${at.id}/running`))
      return (await link(2).count()) > 0
    })
    const row = page.locator('tr', { has: link(2) })
    await row.locator('summary').click()
    await page.getByRole('button', { name: 'Cancel it' }).click()
    await page.getByText('cancelled').first().waitFor()
    assert.ok(namesIn(join(at.spool, '.spoold/dead')).includes(`${FRENCH}-2`))
    await page.goto(urlOf(at, `/spools/${at.id}/dead`))
    assert.equal(await page.locator(`a[href$="/tasks/${urlTextOf(`.spoold/dead/${FRENCH}-2`)}"]`).count(), 1)
    assert.deepEqual(complaints, [])
    await page.context().close()
  })
})
