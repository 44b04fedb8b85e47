// Pictures of the dashboard, of a real daemon with real tasks, into docs/pictures: `node docs/dashboard-pictures.mjs [DIRECTORY]`.
// With a directory: every page at 390 and 1440 pixels, light and dark, into that.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'

const root = fileURLToPath(new URL('..', import.meta.url))
const spoold = join(root, 'bin/spoold.js')
const [everythingInto] = process.argv.slice(2)
/** The dashboard is never root. */
const USER = process.geteuid() === 0 ? 65_534 : process.geteuid()
/** Some of these fail, and some come later, so that there is something to see while pictures are taken. */
const TASKS_PER_SECOND = 4
/** So that charts have a past. */
const WATCHED_MS = 90_000

const home = mkdtempSync(join(tmpdir(), 'shop-'))
const spool = join(home, 'mail')
execFileSync('chmod', ['755', home])
mkdirSync(spool, { mode: 0o750 })
chownSync(spool, USER, USER)
writeFileSync(
  join(home, 'handler.mjs'),
  `const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
export default async ({ to, kind }, task) => {
  await sleep(kind === 'report' ? 40_000 : 200 + Math.random() * 900)
  if (to.startsWith('joe')) throw new Error('smtp: connection refused by mail.example.org')
  return task.SPOOL_OK
}`,
)
writeFileSync(
  join(home, 'app.ini'),
  `[uwsgi]
spooler = ${spool}
spooler-import = ${join(home, 'handler.mjs')}
spooler-dashboard = 127.0.0.1:0
spooler-dashboard-tokens = ${join(home, 'tokens')}
spooler-max-attempts = 2
spooler-retry-delay = 5
spooler-processes = 6
spooler-cheaper = 2
cron2 = minute=-5 true
uid = ${USER}
gid = ${USER}
`,
)
writeFileSync(join(home, 'tokens'), '', { mode: 0o600 })
chownSync(join(home, 'tokens'), USER, USER)
const run = (...args) => execFileSync(process.execPath, [spoold, ...args], { encoding: 'utf8' })
const [token] = run('token', join(home, 'tokens'), '--name', 'alice', '--role', 'admin', '--payload')
  .trim()
  .split('\n')

/** Whoever stores tasks, until it has. */
const producers = []
let produce
const daemon = spawn(process.execPath, [spoold, join(home, 'app.ini')], { stdio: ['ignore', 'pipe', 'pipe'] })
try {
  const port = await portOf(daemon)
  const names = ['ann', 'bob', 'joe', 'sue', 'tim', 'zoe']
  const task = i => ({
    to: `${names[(i * 7) % names.length]}@example.org`,
    subject: `Invoice ${1000 + i}`,
    kind: i % 60 === 0 ? 'report' : 'mail',
    ...(i % 12 === 0 ? { at: String(Math.ceil(Date.now() / 1000) + 3600 + i) } : {}),
  })
  const store = (...tasks) => {
    const args = [spoold, 'enqueue', '--quiet', '--spooler', spool, '--json', '-']
    const producer = spawn(process.execPath, args, { stdio: ['pipe', 'ignore', 'inherit'] })
    producers.push(once(producer, 'exit'))
    producer.stdin.end(tasks.map(each => JSON.stringify(each)).join('\n'))
  }
  run('pause', spool, '--key', 'kind=newsletter')
  store({ ...task(1), kind: 'newsletter' }, { ...task(12), subject: 'Reminder' })
  let stored = 0
  produce = setInterval(() => store(...Array.from({ length: TASKS_PER_SECOND }, () => task(stored++))), 1000)
  await sleep(3000)
  run('hold', '--key', 'subject=Reminder', spool)
  await sleep(WATCHED_MS)
  await takeAll(`http://127.0.0.1:${port}`)
} finally {
  clearInterval(produce)
  daemon.kill('SIGQUIT')
  await Promise.all([once(daemon, 'exit'), ...producers])
  rmSync(home, { recursive: true, force: true })
}

async function portOf({ stdout, stderr }) {
  let text = ''
  for (const stream of [stdout, stderr]) stream.on('data', data => (text += data))
  for (;;) {
    const [, port] = /dashboard enabled on 127\.0\.0\.1:(\d+)/.exec(text) ?? []
    if (port !== undefined) return port
    await sleep(100)
  }
}

async function takeAll(origin) {
  const browser = await chromium.launch({
    executablePath: '/usr/bin/chromium-headless-shell',
    args: ['--no-sandbox'],
  })
  const open = async (width, height, colorScheme) => {
    const page = await (await browser.newContext({ viewport: { width, height }, colorScheme })).newPage()
    await page.goto(`${origin}/login`)
    await page.fill('input[name=token]', token)
    await page.click('button[type=submit]')
    return page
  }
  const take = async (page, path, file, fullPage = false) => {
    await page.goto(`${origin}${path}`)
    await page.screenshot({ path: file, fullPage })
  }
  if (everythingInto === undefined) {
    const into = join(root, 'docs/pictures')
    mkdirSync(into, { recursive: true })
    await take(await open(1280, 800, 'light'), '/', join(into, 'dashboard-overview.png'))
    await take(await open(390, 800, 'dark'), '/spools/mail/dead', join(into, 'dashboard-phone.png'))
  } else {
    mkdirSync(everythingInto, { recursive: true })
    const pages = [
      '',
      '/waiting',
      '/running',
      '/retrying',
      '/held',
      '/parked',
      '/dead',
      '/find?state=dead',
      '/named',
      '/workers',
      '/audit',
    ]
    const paths = ['/', '/schedules', '/configuration', ...pages.map(path => `/spools/mail${path}`)]
    for (const width of [390, 1440])
      for (const colorScheme of ['light', 'dark']) {
        const page = await open(width, 900, colorScheme)
        for (const path of paths) {
          const name = path.replace(/[^a-z]+/g, '-').replace(/^-|-$/g, '') || 'overview'
          await take(page, path, join(everythingInto, `${name}-${width}-${colorScheme}.png`), true)
        }
      }
  }
  await browser.close()
}
