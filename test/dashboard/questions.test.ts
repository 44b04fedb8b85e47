import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import { readAudit } from '#src/engines/spool/admin/audit.js'
import { urlOf, windowOf } from '../helpers/browser.js'
import { spoold } from '../helpers/cli.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import { changed, type Spooled, spooled, stored } from '../helpers/dashboard-tasks.js'
import { skipUnless } from '../helpers/requires.js'
import { stateOf } from '../helpers/spools.js'
import { until } from '../helpers/until.js'
import { ROOT } from '../helpers/workspace.js'

/** A window, and what is clicked in it. */
interface Walk {
  readonly page: Page
  /** Opens a page of the navigation by its words, as people find it. */
  go(page: string): Promise<void>
  press(button: string): Promise<void>
  click(what: Locator): Promise<void>
  fill(label: string, text: string): Promise<void>
}

type Answer = (walk: Walk) => Promise<void>

/** What docs/dashboard.md says of each question. */
const ROWS = [
  ...(readFileSync(join(ROOT, 'docs/dashboard.md'), 'utf8')
    .split("## An operator's questions")[1]
    ?.split('\n## ')[0]
    ?.matchAll(/^\| (.+?) \| .+ \| ([0-9]+)\S* ?.*\|$/gm) ?? []),
].map(([, question = '', clicks = '']) => ({ question, clicks: Number(clicks) }))

describe('an operator, in a browser', { skip: skipUnless('chromium') }, () => {
  const starting = spooled()
  let at: Spooled
  let count = 0
  before(async () => {
    at = await starting
  })
  const later = (kind: string) => stored(at.spool, '--at', '+2h', `n=asked-${++count}`, `kind=${kind}`)
  const dead = async () => {
    const name = await later('dead')
    await changed('cancel', at.spool, name)
    return name
  }
  const state = (name: string) => stateOf(at.spool, name)
  const shows = async ({ page }: Walk, text: RegExp) => page.getByText(text).first().waitFor()
  const tile = ({ page }: Walk, label: string) =>
    page.locator('.tiles div', { has: page.getByText(label, { exact: true }) })
  const found = async (walk: Walk, kind: string) => {
    await walk.go('Find')
    await walk.fill('Key and value', `kind=${kind}`)
    await walk.press('Find')
  }
  const bulk = async (walk: Walk, label: string) => {
    await walk.click(walk.page.locator('a.button', { hasText: `${label}…` }))
    if (label === 'Remove') await walk.page.locator('input[name=typed]').fill('2')
    await walk.click(walk.page.getByRole('button', { name: new RegExp(`^${label}: `) }))
  }
  const paused = async (walk: Walk, key?: string) => {
    await walk.go('Spool')
    await walk.click(walk.page.locator('summary', { hasText: 'Pause' }))
    if (key !== undefined) await walk.fill('Only tasks with this key and value', key)
    await walk.press('Pause')
    await shows(walk, /^paused: /)
  }
  const pauses = async () => (await spoolSnapshotOf(at.spool)).paused.pauses.map(({ pair }) => pair)

  const ANSWERS: Readonly<Record<string, Answer>> = {
    'How long is the queue?': async walk =>
      assert.match((await tile(walk, 'Due').textContent()) ?? '', /[0-9]/),
    'How old is the oldest?': async walk => {
      for (const n of [1, 2, 3]) await stored(at.spool, 'kind=hangs', `n=busy-${n}`) // more than there are processes
      await until('one of the tasks waits', async () => {
        await walk.page.reload()
        return /oldest [0-9]/.test((await tile(walk, 'Due').textContent()) ?? '')
      })
    },
    'How fast is it going?': async walk => {
      assert.match((await tile(walk, 'Done').textContent()) ?? '', /\/[sh]/)
      await shows(walk, /Runs per second/)
    },
    'Is anything too late, or too much?': async walk =>
      walk.page.locator('.concerns a', { hasText: 'dead letter' }).waitFor(),
    'What runs now, and in which process?': async walk => {
      await walk.go('Running')
      await walk.page.locator('tr', { hasText: at.running }).locator('td[data-label=Process]').waitFor()
    },
    'Which failed, and why?': async walk => {
      await walk.go('Retrying')
      await shows(walk, /no answer from zq-31/)
    },
    'What happened to this task, run by run?': async walk => {
      await walk.go('Retrying')
      await walk.click(walk.page.locator('td a').first())
      await walk.page.locator('.timeline li', { hasText: 'failed with an error' }).first().waitFor()
    },
    'Where is the task of this customer?': async walk => {
      await later('customer-7')
      await found(walk, 'customer-7')
      assert.equal(await walk.page.locator('tbody tr').count(), 1)
    },
    'Retry this one': async walk => {
      const name = await dead()
      await walk.go('Dead letters')
      const row = walk.page.locator('tr', { has: walk.page.getByLabel(`Select ${name}`) })
      await walk.click(row.getByRole('button', { name: 'Try again', exact: true }))
      await shows(walk, /^requeued$/)
      assert.equal(await state(name), 'waiting')
    },
    'Retry these': async walk => {
      const name = await dead()
      await walk.go('Dead letters')
      await walk.page.getByLabel(`Select ${name}`).check()
      await walk.press('Try again…')
      await walk.press('Try again: 1 task')
      await shows(walk, /^1 requeued$/)
      assert.equal(await state(name), 'waiting')
    },
    'Retry all dead of today': async walk => {
      const name = await dead()
      await walk.go('Find')
      await walk.page.getByLabel('State').selectOption('dead')
      await walk.fill('Newer than', 'today')
      await walk.press('Find')
      await bulk(walk, 'Try again')
      await shows(walk, /^[0-9]+ requeued$/)
      assert.equal(await state(name), 'waiting')
    },
    'Hold all of one kind that are here': async walk => {
      const names = [await later('held-kind'), await later('held-kind')]
      await found(walk, 'held-kind')
      await bulk(walk, 'Hold')
      await shows(walk, /^2 held$/)
      assert.deepEqual(await Promise.all(names.map(state)), ['held', 'held'])
    },
    'Let none of a kind start from now on': async walk => {
      await paused(walk, 'kind=paused-kind')
      assert.deepEqual(await until('the daemon knows of the pause', async () => (await pauses()).at(-1)), [
        'kind',
        'paused-kind',
      ])
    },
    'Throw away all of one kind': async walk => {
      const names = [await later('gone-kind'), await later('gone-kind')]
      await found(walk, 'gone-kind')
      await bulk(walk, 'Remove')
      await shows(walk, /^2 removed$/)
      assert.deepEqual(await Promise.all(names.map(state)), [undefined, undefined])
    },
    'Pause for maintenance': async walk => {
      await paused(walk)
      await until('the daemon knows of the pause', async () => (await pauses()).includes(null))
    },
    'Drain before a shutdown': async walk => {
      await paused(walk)
      await walk.go('Running')
      await walk.page.locator('tbody tr').first().waitFor()
    },
    'Run more processes, without a restart': async walk => {
      await spoold(['scale', at.spool, '2']) // there is room for more
      await walk.go('Workers')
      await walk.press('One process more')
      await shows(walk, /processes wanted/)
    },
    'Who did that?': async walk => {
      await walk.go('Audit')
      await walk.page
        .locator('tbody tr', { hasText: readAudit(at.spool, 1)[0]?.action ?? '' })
        .first()
        .waitFor()
    },
  }

  it('has an answer to each question of docs/dashboard.md', () =>
    assert.deepEqual(
      ROWS.map(({ question }) => question),
      Object.keys(ANSWERS),
    ))

  for (const { question, clicks } of ROWS)
    it(`${question} (${clicks} clicks)`, async () => {
      const { page, complaints } = await windowOf(at, at.tokenOf('admin', true))
      await page.goto(urlOf(at, '/'))
      let clicked = 0
      const click = async (what: Locator) => {
        clicked++
        await what.click()
      }
      const walk: Walk = {
        page,
        click,
        go: name => click(page.locator('nav.pages a', { hasText: new RegExp(`^${name}( [0-9,]+)?$`) })),
        press: name => click(page.locator('main').getByRole('button', { name, exact: true })),
        fill: (label, text) => page.getByLabel(label, { exact: true }).fill(text),
      }
      await ANSWERS[question]?.(walk)
      assert.equal(clicked, clicks)
      assert.deepEqual(complaints, [])
      await page.context().close()
    })
})
