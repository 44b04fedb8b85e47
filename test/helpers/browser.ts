import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { after } from 'node:test'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import type { TestDashboard } from './dashboard.js'
import { patience } from './until.js'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

let browser: Promise<Browser> | undefined

/** Returns the deadline that `until` has. */
const patienceMs = () => 60_000 * patience()

/** Starts Debian's chromium without windows. It has no sandbox: root may not have one, and the pages are our own. */
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

/** Opens a page and logs in. `complaints` collects what pages complain of, such as a breach of their policy. */
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
  await page.waitForURL(({ pathname }) => pathname !== '/login') // the browser is logged in only once it has the answer
  return { page, complaints }
}

/** The rules that `violationsOn` checks: all of axe's, or those of colors. */
const RULES = { all: {}, colors: { runOnly: ['cat.color'] } }

interface Axe {
  run(
    options: object,
  ): Promise<{ violations: Array<{ id: string; nodes: Array<{ html: string }> }>; passes: unknown[] }>
}

/**
 * Returns what axe finds wrong: rule and element. The debugger evaluates axe, because the page's policy does not apply to the
 * debugger. The page counts as hidden meanwhile, so that it does not refresh itself and replace elements that axe holds.
 */
export async function violationsOn(page: Page, rules: keyof typeof RULES = 'all'): Promise<string[]> {
  await page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
  if (!(await page.evaluate("'axe' in globalThis"))) await page.evaluate(AXE)
  const { violations, passes } = await page.evaluate(
    options => (globalThis as unknown as { axe: Axe }).axe.run(options),
    RULES[rules],
  )
  await page.evaluate('delete document.hidden')
  assert.ok(passes.length > (rules === 'all' ? 5 : 0), 'axe has checked the page')
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`))
}
