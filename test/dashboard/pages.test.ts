import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { PAGES } from '#src/doors/dashboard/pages/index.js'
import { urlTextOf } from '#src/doors/dashboard/spools.js'
import { urlOf, violationsOn, windowOf } from '../helpers/browser.js'
import { type Spooled, spooled } from '../helpers/dashboard-tasks.js'
import { skipUnless } from '../helpers/requires.js'

const skip = skipUnless('chromium')
/** True if a browser shows the path: a body is a download. */
const isShown = (path: string) => !path.endsWith('/body')
const WIDTHS = [1440, 390]
/** The rules that axe checks in each: the dark one differs from the light one by its colors alone (dashboard.css). */
const COLOR_SCHEMES = [
  ['light', 'all'],
  ['dark', 'colors'],
] as const

/** A page for each row of the table, and for the listings that a query changes. */
function pathsOf({ id, held, dead }: Spooled): string[] {
  const rows = PAGES.map(({ path }) => path).filter(isShown)
  const named = (path: string, task: string) =>
    path.replace(':spool', id).replace(':ref', urlTextOf(task)).replace(':action', 'remove')
  return [
    ...rows.map(path => named(path, held)),
    named('/spools/:spool/tasks/:ref', `.spoold/dead/${dead}`),
    named('/spools/:spool/waiting?show=later', ''),
    named('/spools/:spool/find?state=held', ''),
    named('/spools/:spool/dead?reason=cancelled', ''),
  ]
}

describe('the pages of the dashboard, in a browser', { skip }, () => {
  const starting = spooled()
  let at: Spooled
  before(async () => {
    at = await starting
  })

  it('are accessible and no wider than the window, at 1440 and 390 pixels, light and dark', async () => {
    const { page, complaints } = await windowOf(at, at.tokenOf('admin', true))
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 })
      for (const path of pathsOf(at)) {
        const answer = await page.goto(urlOf(at, path))
        assert.equal(answer?.status(), 200, path)
        const tooWide = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
        assert.ok(Number(tooWide) <= 0, `${path} is ${tooWide} pixels too wide at ${width}`)
        for (const [colorScheme, rules] of COLOR_SCHEMES) {
          await page.emulateMedia({ colorScheme })
          assert.deepEqual(await violationsOn(page, rules), [], `${path}, ${width} pixels, ${colorScheme}`)
        }
      }
    }
    assert.deepEqual(complaints, [])
    await page.context().close()
  })

  it('fold each row of a task on a phone, and "More" unfolds it without JavaScript', async () => {
    const viewport = { width: 390, height: 900 }
    const who = await windowOf(at, at.tokenOf('admin', true), { viewport, javaScriptEnabled: false })
    const { page } = who
    for (const path of ['held', 'dead', 'retrying', 'find?state=held']) {
      await page.goto(urlOf(at, `/spools/${at.id}/${path}`))
      const row = page.locator('tbody tr').first()
      const height = async () => (await row.boundingBox())?.height ?? 0
      const folded = await height()
      assert.ok(folded > 0 && folded <= 125, `${path}: ${folded} pixels`)
      const button = row.getByText(path === 'dead' ? 'Try again' : 'Remove…').first()
      assert.equal(await button.isVisible(), false, path)
      await row.locator('.more summary').focus()
      await page.keyboard.press('Enter')
      assert.equal(await button.isVisible(), true, path)
      assert.ok((await height()) > folded, path)
    }
    await page.setViewportSize({ width: 1440, height: 900 })
    await page.goto(urlOf(at, `/spools/${at.id}/held`))
    assert.equal(await page.locator('.more').first().isVisible(), false)
    assert.equal(await page.getByRole('button', { name: 'Release' }).first().isVisible(), true)
    await page.context().close()
  })

  it('have the current page of the navigation in view on a phone', async () => {
    const viewport = { width: 390, height: 900 }
    const { page } = await windowOf(at, at.tokenOf('admin', true), { viewport })
    await page.goto(urlOf(at, '/configuration'))
    const box = await page.locator('.pages [aria-current]').boundingBox()
    assert.ok(box !== null && box.x >= 0 && box.x + box.width <= 390, JSON.stringify(box))
    await page.context().close()
  })

  it('say the same without JavaScript', async () => {
    const token = at.tokenOf('admin', true)
    const [scripted, plain] = [
      await windowOf(at, token),
      await windowOf(at, token, { javaScriptEnabled: false }),
    ]
    // times, rates and what is free on the disk change from one look to the next
    const figures = /[0-9][0-9.,]*(?: (?:ms|s|min|h|[KMGT]?i?B)\b)?(?:\/[sh])?/g
    const words = (text: string | null) => (text ?? '').replace(figures, 'N').split(/\s+/)
    for (const path of pathsOf(at).filter(each => !each.includes('workers'))) {
      const shown: string[][] = []
      for (const { page } of [scripted, plain]) {
        await page.goto(urlOf(at, path))
        const texts = await page.locator('main :is(h1, h2, dd), main .stacked td').allTextContents()
        shown.push(texts.flatMap(words))
      }
      assert.deepEqual(shown[0], shown[1], path)
    }
    const { page } = plain
    await page.goto(urlOf(at, '/'))
    assert.equal(await page.locator('figure svg').first().isVisible(), true, 'a chart that the server drew')
    assert.equal(await page.locator('#refreshing').isVisible(), false)
    for (const { page: each } of [scripted, plain]) await each.context().close()
  })

  it('refresh themselves, and do so again after live updates were stopped and resumed', async () => {
    const { page, complaints } = await windowOf(at, at.tokenOf('viewer'))
    const uptime = page.locator('#live dl.tiles').first()
    await uptime.waitFor()
    const refreshed = () =>
      page.waitForResponse(answer => answer.request().headers()['hx-request'] === 'true')
    await refreshed()
    await page.locator('canvas').first().waitFor()
    await page.getByRole('button', { name: 'Stop live updates' }).click()
    await page.getByRole('button', { name: 'Resume live updates' }).click()
    await refreshed()
    assert.equal(await page.locator('#live').count(), 1)
    assert.deepEqual(complaints, [])
    await page.context().close()
  })

  it('ask for the token again after a logout, even if the old cookie is sent', async () => {
    const { page } = await windowOf(at, at.tokenOf('viewer'), { javaScriptEnabled: false })
    const context = page.context()
    const known = await context.cookies()
    await page.goto(urlOf(at, `/spools/${at.id}/dead`))
    await page.getByRole('button', { name: 'Log out' }).click()
    assert.equal(page.url(), urlOf(at, '/login'))
    await context.addCookies(known)
    await page.goto(urlOf(at, '/'))
    assert.equal(page.url(), urlOf(at, '/login'), 'the cookie of an ended session is refused')
    await context.close()
  })

  it('lead the Tab key to "Skip to content" first, and then to each button of a task', async () => {
    const { page } = await windowOf(at, at.tokenOf('admin', true))
    await page.goto(urlOf(at, `/spools/${at.id}/held`))
    await page.keyboard.press('Tab')
    assert.equal(await page.evaluate('document.activeElement.textContent.trim()'), 'Skip to content')
    await page.keyboard.press('Enter')
    const reached = new Set<string>()
    for (let i = 0; i < 12; i++) {
      await page.keyboard.press('Tab')
      reached.add(String(await page.evaluate('document.activeElement.textContent.trim()')))
    }
    for (const button of ['Release', 'Bury…', 'Remove…'])
      assert.ok(
        [...reached].some(text => text.startsWith(button)),
        `${button} in ${[...reached].join()}`,
      )
    await page.context().close()
  })

  it('show markup that strangers wrote as text', async () => {
    const { page, complaints } = await windowOf(at, at.tokenOf('admin', true))
    for (const path of pathsOf(at)) await page.goto(urlOf(at, path))
    await page.goto(urlOf(at, `/spools/${at.id}/tasks/${urlTextOf(at.held)}`))
    await page.getByText('<script>alert(1)</script>').first().waitFor()
    assert.equal(await page.locator('img').count(), 0)
    assert.deepEqual(complaints, [])
    await page.context().close()
  })

  it('show no value and no error to those without the right to payloads', async () => {
    const { page } = await windowOf(at, at.tokenOf('operator'))
    for (const path of pathsOf(at).filter(each => !each.includes('/bulk/'))) {
      await page.goto(urlOf(at, path))
      assert.doesNotMatch(await page.content(), /zq-31|alert\(1\)/, path)
    }
    await page.context().close()
  })
})
