import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import type { Page } from 'playwright-core'
import { PAGE_SIZE } from '#src/doors/dashboard/models/listings.js'
import { urlTextOf } from '#src/doors/dashboard/spools.js'
import { readAudit } from '#src/engines/spool/admin/audit.js'
import { urlOf, windowOf } from '../helpers/browser.js'
import { Browser } from '../helpers/dashboard.js'
import { type Spooled, spooled, stored } from '../helpers/dashboard-tasks.js'
import { skipUnless } from '../helpers/requires.js'
import { listed, stateOf } from '../helpers/spools.js'

describe('tasks that are selected in a listing', { skip: skipUnless('chromium') }, () => {
  const starting = spooled()
  let at: Spooled
  before(async () => {
    at = await starting
  })
  const later = () => stored(at.spool, '--at', '+2h', 'n=chosen')
  const state = (name: string) => stateOf(at.spool, name)
  const box = (page: Page, name: string) => page.locator(`input[name=ref][value="${urlTextOf(name)}"]`)
  const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
  const open = async (role: 'viewer' | 'operator' | 'admin', path: string, javaScriptEnabled = true) => {
    const window = await windowOf(at, at.tokenOf(role, true), { javaScriptEnabled })
    await window.page.goto(urlOf(at, `/spools/${at.id}${path}`))
    return window
  }

  for (const javaScriptEnabled of [true, false])
    it(`are acted on after a preview, ${javaScriptEnabled ? 'with' : 'without'} JavaScript`, async () => {
      const [one, two, other] = [await later(), await later(), await later()]
      const { page, complaints } = await open('operator', '/waiting?show=later', javaScriptEnabled)
      for (const name of [one, two]) await box(page, name).check()
      await button(page, 'Hold…').click()
      await page.getByRole('heading', { name: 'Hold: 2 tasks' }).waitFor()
      const shown = await page.locator('main li a').allTextContents()
      assert.deepEqual(shown.map(text => text.trim()).sort(), [one, two].sort())
      assert.deepEqual([await state(one), readAudit(at.spool, 1)[0]?.action === 'hold'], ['waiting', false])
      await button(page, 'Hold: 2 tasks').click()
      await page.getByText('2 held').waitFor()
      assert.match(page.url(), /\/waiting\?show=later$/)
      assert.deepEqual([await state(one), await state(two), await state(other)], ['held', 'held', 'waiting'])
      const [result, announced] = readAudit(at.spool, 2)
      assert.deepEqual([announced?.count, announced?.result, result?.result], [2, undefined, '2 held'])
      assert.deepEqual(announced?.task?.split(' ').sort(), [one, two].sort())
      assert.equal(announced?.who, 'operator-with-payload')
      await page.goto(urlOf(at, `/spools/${at.id}/held`))
      for (const name of [one, two]) await box(page, name).check()
      await button(page, 'Release…').click()
      await button(page, 'Release: 2 tasks').click()
      await page.getByText('2 released').waitFor()
      assert.deepEqual([await state(one), await state(two)], ['waiting', 'waiting'])
      assert.deepEqual(complaints, [])
      await page.context().close()
    })

  it('are counted, and can all be selected at once by keyboard', async () => {
    await later()
    const { page, complaints } = await open('admin', '/waiting?show=later')
    const all = page.getByLabel('Select all on this page')
    const count = page.locator('#choice output')
    const boxes = await page.locator('input[name=ref]').count()
    assert.equal(await button(page, 'Hold…').isDisabled(), true)
    await page.locator('input[name=ref]').first().focus()
    await page.keyboard.press('Space')
    assert.equal(await count.textContent(), `1 of ${boxes} selected`)
    assert.equal(await button(page, 'Hold…').isDisabled(), false)
    await all.focus()
    await page.keyboard.press('Space')
    assert.equal(await count.textContent(), `${boxes} of ${boxes} selected`)
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: `Run now: ${boxes} tasks` }).waitFor()
    await page.goBack()
    assert.equal(await count.textContent(), `${boxes} of ${boxes} selected`)
    await all.focus()
    await page.keyboard.press('Space')
    assert.equal(await count.textContent(), 'none selected')
    assert.deepEqual(complaints, [])
    await page.context().close()
  })

  it('are left alone if they were buried meanwhile; if none is selected, there is nothing to confirm', async () => {
    const [one, two] = [await later(), await later()]
    const { page } = await open('admin', '/waiting?show=later', false)
    await button(page, 'Remove…').last().click()
    await page.getByRole('heading', { name: 'Remove: 0 tasks' }).waitFor()
    assert.equal(await page.locator('main form').count(), 0)
    await page.getByRole('link', { name: 'Back, and do nothing' }).click()
    for (const name of [one, two]) await box(page, name).check()
    await button(page, 'Remove…').last().click()
    const other = await open('admin', `/tasks/${urlTextOf(one)}`)
    await button(other.page, 'Bury it')
      .or(other.page.locator('summary', { hasText: 'Bury' }))
      .first()
      .click()
    await button(other.page, 'Bury it').click()
    await other.page.getByText('buried').first().waitFor()
    await page.locator('input[name=typed]').fill('2')
    await button(page, 'Remove: 2 tasks').click()
    await page.getByText('1 removed').waitFor()
    assert.deepEqual([await state(one), await state(two)], [undefined, undefined])
    assert.equal(await state(`.spoold/dead/${one}`), 'dead')
    for (const each of [page, other.page]) await each.context().close()
  })

  it('are left alone without the right, beyond the number of one page, and outside of the spool', async () => {
    const name = await later()
    const viewer = await open('viewer', '/waiting?show=later')
    assert.equal(await viewer.page.locator('input[type=checkbox]').count(), 0)
    await viewer.page.context().close()
    const { page } = await open('operator', '/waiting?show=later')
    assert.equal(await button(page, 'Remove…').count(), 0)
    const csrf = await page.locator('#choice input[name=csrf]').inputValue()
    await page.context().close()
    const browser = new Browser(at.place)
    await browser.logIn(at.tokenOf('operator', true))
    const audited = readFileSync(join(at.spool, '.spoold/audit'), 'utf8')
    const post = async (path: string, form: Record<string, string>) =>
      (await browser.post(`/spools/${at.id}/${path}`, { csrf: await csrfOf(browser), ...form })).status
    assert.equal(await post('chosen/remove', { ref: urlTextOf(name) }), 403)
    assert.equal(await post('chosen/edit', { ref: urlTextOf(name) }), 404)
    assert.equal(await post('chosen/hold', { ref: urlTextOf(name), csrf }), 403)
    const many = Array.from({ length: PAGE_SIZE + 1 }, (_, i) => urlTextOf(`t${i}`)).join(' ')
    assert.equal(await post('chosen/hold', { ref: many }), 400)
    assert.equal(await post('bulk/hold', { ref: many, count: '99' }), 400)
    const before = [...(await listed(at.spool)).keys()]
    assert.equal(await post('bulk/hold', { ref: '', count: '99' }), 303)
    assert.equal(await post('bulk/hold', { ref: urlTextOf('../app.ini'), count: '99' }), 303)
    assert.deepEqual([...(await listed(at.spool)).keys()], before)
    assert.equal(await state(name), 'waiting')
    assert.doesNotMatch(
      readFileSync(join(at.spool, '.spoold/audit'), 'utf8').slice(audited.length),
      /\.ini|t50/,
    )
  })

  const csrfOf = async (browser: Browser) => {
    const { text } = await browser.get(`/spools/${at.id}/waiting?show=later`)
    return /name="csrf" value="([^"]+)"/.exec(text)?.[1] ?? assert.fail(text)
  }
})
