import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { urlTextOf } from '#src/doors/dashboard/spools.js'
import { countText } from '#src/doors/dashboard/views/text.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import { Browser, give, startDashboard, type TestDashboard } from '../helpers/dashboard.js'
import { changed } from '../helpers/dashboard-tasks.js'
import { drop, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const IN_A_CENTURY = 4_000_000_000
/** More tasks than a search looks at. */
const TASKS = 20_050
const HELD = ['fits-0', 'fits-1', 'fits-2']
const MIB = 1024 * 1024

/** Returns a spool of tasks for later, one of them with a large body, and of a task that only root may read. */
function filled(): string {
  const spool = spoolDirectory()
  const bytes = packet({ to: 'joe' })
  for (let i = 0; i < TASKS; i++) give(drop(spool, `fits-${i}`, bytes, IN_A_CENTURY))
  give(drop(spool, 'large', packet({ to: 'jim' }, 'x'.repeat(3 * MIB)), IN_A_CENTURY))
  chmodSync(drop(spool, 'unreadable', bytes, IN_A_CENTURY), 0)
  return spool
}

describe('a page of a large spool', () => {
  const starting = startDashboard({ spool: filled() })
  let at: TestDashboard
  let browser: Browser
  before(async () => {
    at = await starting
    browser = new Browser(at.place)
    await browser.logIn(at.tokenOf('admin', true))
  })
  /** @returns the text that the pattern finds in the words of a page */
  const said = async (path: string, pattern: RegExp) => {
    const { text } = await browser.get(`/spools/spool${path}`)
    const words = text
      .replace(/^.*<main/s, '')
      .replace(/<[^>]*>/g, ' ')
      .replace(/\s+/g, ' ')
    return pattern.exec(words)?.[0] ?? words.slice(0, 1000)
  }

  it('says that a search gave up when it has looked at 20,000 tasks and none fits', async () => {
    assert.equal(
      await said('/find?key=to=nobody', /(?<=Newer than Find )[^.]*[.]/),
      '0 tasks fit among the 20,000 that were looked at; there may be more.',
    )
  })

  it('says that there may be more when a search has filled its page', async () => {
    assert.equal(
      await said('/find?name=fits-*', /(?<=Newer than Find )[^.]*[.]/),
      'The first 50 tasks that fit; there may be more.',
    )
  })

  it('says how many records a listing found before it stopped early', async () => {
    for (const name of HELD) await changed('hold', at.spool, name)
    for (let i = HELD.length; i < 10_001; i++)
      writeFileSync(join(at.spool, '.spoold/records', `gone-${i}.json`), '')
    assert.equal(await said('/held', /Of the first [0-9,]+ records/), 'Of the first 10,000 records')
  })

  it('says that newer dead letters may be missing where there are more than a listing looks at', async () => {
    const dead = join(at.spool, '.spoold/dead')
    mkdirSync(dead, { recursive: true })
    give(dead)
    for (let i = 0; i < 10_001; i++) writeFileSync(join(dead, `dead-${i}`), '')
    assert.equal(
      await said('/dead', /the first [^.]* the last one first/),
      'the first 10,000 dead letters in the order of the directory (newer ones may be missing), the last one first',
    )
  })

  it('says how much of a body a download contains', async () => {
    const page = `/tasks/${urlTextOf('large')}`
    assert.equal(await said(page, /Download .*$/), 'Download the first 1 MiB of the body ')
    assert.equal(await said(page, /text, 3 MiB[^.]*shown/), 'text, 3 MiB, the beginning is shown')
  })

  it('says how many groups of parked tasks it shows at most', async () => {
    assert.equal(
      await said('/parked', /From the daemon[^;]*;/),
      'From the daemon: at most 200 reasons and names, with the first 5 tasks of each;',
    )
  })

  it('says how many changes of the number of workers it shows', async () => {
    assert.equal(
      await said('/workers', /From the daemon[^.]*[.]/),
      'From the daemon&#39;s snapshot; since the dashboard was started, the chart has the last hour, and the table the last 100 changes.',
    )
  })

  it('does not count an unreadable task among those that wait for their time', async () => {
    const { later, held } = await until('all tasks are seen', async () => {
      const { tasks } = await spoolSnapshotOf(at.spool)
      return tasks.unreadable === 1 && tasks.later === TASKS + 1 ? tasks : undefined
    })
    assert.equal(await said('', /Waiting [0-9,]+ Parked/), `Waiting ${countText(later - held)} Parked`)
  })
})
