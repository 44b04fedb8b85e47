import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { after } from 'node:test'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import type { TestDashboard } from './dashboard.js'
import { patience } from './until.js'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

let browser: Promise<Browser> | undefined

/** As `until` has. */
const patienceMs = () => 60_000 * patience()

/** Debian's chromium, without its windows. Root may not have its sandbox, and the pages are our own. */
function launch(): Promise<Browser> {
  browser ??= chromium.launch({
    executablePath: '/usr/bin/chromium-headless-shell',
    args: ['--no-sandbox', '--disable-gpu'],
    timeout: patienceMs(),
  })
  return browser
}

after(async () => (await browser)?.close())

export const urlOf = ({ place }: TestDashboard, path = '/') =>
  'port' in place ? `http://127.0.0.1:${place.port}${path}` : assert.fail('it listens on no port')

/** A window of somebody, who has logged in. What a page complains of, such as a breach of its policy, is kept. */
export async function windowOf(
  dashboard: TestDashboard,
  token: string,
  options: BrowserContextOptions = {},
): Promise<{ page: Page; complaints: string[] }> {
  const context = await (await launch()).newContext(options)
  context.setDefaultTimeout(patienceMs())
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('console', message => {
    if (['error', 'warning'].includes(message.type())) complaints.push(`${page.url()}: ${message.text()}`)
  })
  page.on('pageerror', error => complaints.push(`${page.url()}: ${error.message}`))
  page.on('dialog', dialog => {
    complaints.push(`${page.url()}: a dialog says ${dialog.message()}`)
    void dialog.dismiss()
  })
  await page.goto(urlOf(dashboard, '/login'))
  await page.fill('input[name=token]', token)
  await page.click('button[type=submit]')
  await page.waitForURL(({ pathname }) => pathname !== '/login') // who leaves before the answer is not logged in
  return { page, complaints }
}

interface Axe {
  run(): Promise<{ violations: Array<{ id: string; nodes: Array<{ html: string }> }>; passes: unknown[] }>
}

/**
 * What axe finds wrong: rule and element. Evaluated by the debugger, which the page's policy does not concern. Meanwhile the page does not
 * refresh itself, as in a hidden tab: what axe holds would be replaced.
 */
export async function violationsOn(page: Page): Promise<string[]> {
  await page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
  if (!(await page.evaluate("'axe' in globalThis"))) await page.evaluate(AXE)
  const { violations, passes } = await page.evaluate(() => (globalThis as unknown as { axe: Axe }).axe.run())
  await page.evaluate('delete document.hidden')
  assert.ok(passes.length > 5, 'axe has looked at nothing')
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`))
}
