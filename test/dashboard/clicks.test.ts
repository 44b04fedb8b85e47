import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import type { Page } from 'playwright-core'
import { ACTIONS, type ActionName } from '#src/admin/operate/actions.js'
import { urlTextOf } from '#src/doors/dashboard/spools.js'
import { WORDING } from '#src/doors/dashboard/views/actions.js'
import { urlOf, windowOf } from '../helpers/browser.js'
import { snapshotOf, spoolSnapshotOf } from '../helpers/control.js'
import { changed, type Spooled, spooled, stored } from '../helpers/dashboard-tasks.js'
import { skipUnless } from '../helpers/requires.js'
import { listed, stateOf } from '../helpers/spools.js'
import { until } from '../helpers/until.js'

const skip = skipUnless('chromium')

/** One action: what there is before, what is filled in and clicked, and what there is on disk afterwards. */
interface Case {
  /** @returns the task that the action is done to; nothing for an action on the spool */
  prepare(): Promise<string | undefined>
  readonly before?: string
  /** The page that has the button; by default the task's own. */
  readonly path?: string
  /** The button is on the page of schedules. */
  readonly isSchedule?: true
  readonly fill?: (page: Page) => Promise<void>
  readonly button?: string
  /** True if the action is done. */
  isDone(name: string): Promise<boolean> | boolean
}

describe('each action of the table, clicked in a browser', { skip }, () => {
  const starting = spooled()
  let at: Spooled
  let count = 0
  before(async () => {
    at = await starting
  })
  const state = (name: string) => stateOf(at.spool, name)
  const isDead = async (name: string) => (await state(`.spoold/dead/${name}`)) === 'dead'
  const hasRun = (n: string) => at.daemon.journal().includes(n)
  const later = () => stored(at.spool, '--at', '+2h', `n=click-${++count}`)
  const made = async (command: string) => {
    const name = await later()
    await changed(command, at.spool, name)
    return name
  }
  const dead = async () => `.spoold/dead/${await made('cancel')}`
  const none = async () => undefined
  const open = (summary: string) => (page: Page) => page.locator('summary', { hasText: summary }).click()

  const CASES: Readonly<Record<ActionName, Case>> = {
    requeue: {
      prepare: dead,
      before: 'dead',
      isDone: async name => (await state(name.replace('.spoold/dead/', ''))) === 'waiting',
    },
    kick: { prepare: later, before: 'waiting', isDone: () => hasRun(`click-${count}`) },
    hold: { prepare: later, before: 'waiting', isDone: async name => (await state(name)) === 'held' },
    release: {
      prepare: () => made('hold'),
      before: 'held',
      isDone: async name => (await state(name)) === 'waiting',
    },
    bury: { prepare: later, before: 'waiting', isDone: isDead },
    cancel: { prepare: async () => at.running, before: 'running', isDone: isDead },
    remove: {
      prepare: later,
      before: 'waiting',
      isDone: async name => (await state(name)) === undefined && !hasRun(`click-${count}`),
    },
    edit: {
      prepare: () => made('hold'),
      before: 'held',
      fill: page => page.fill('textarea[name=vars]', '{"n":"edited"}'),
      button: 'Store the changed task',
      isDone: async name => hasRun('edited') && (await state(name)) === undefined,
    },
    pause: {
      prepare: none,
      path: '',
      fill: async page => {
        await open('Pause')(page)
        await page.getByLabel('Only tasks with this key and value').fill('kind=report')
      },
      isDone: () => readPaused().includes('report'),
    },
    resume: { prepare: none, path: '', button: 'Resume all', isDone: () => !readPaused().includes('report') },
    scale: {
      prepare: none,
      path: '/workers',
      fill: page => page.getByRole('textbox', { name: 'Processes' }).fill('2'),
      button: 'Set the number',
      isDone: async () => (await spoolSnapshotOf(at.spool)).processes.size.isByHand,
    },
    'run-schedule': {
      prepare: async () => {
        signals = ran('signal 7')
        return undefined
      },
      isSchedule: true,
      isDone: () => ran('signal 7') > signals,
    },
    'pause-schedule': { prepare: () => paused(false), isSchedule: true, isDone: () => isPaused(true) },
    'resume-schedule': { prepare: () => paused(true), isSchedule: true, isDone: () => isPaused(false) },
    'remove-schedule': {
      prepare: async () => {
        await stored(at.spool, `n=adds-${++count}`, 'kind=schedules')
        await until('code has added a schedule', async () => (await schedules()).length === 2)
        return undefined
      },
      isSchedule: true,
      isDone: async () => (await schedules()).length === 1,
    },
    enqueue: {
      prepare: none,
      path: '',
      fill: async page => {
        await open('Enqueue')(page)
        await page.getByLabel('Keys and values, as JSON').fill('{"n":"enqueued"}')
      },
      isDone: () => hasRun('enqueued'),
    },
  }
  let signals = 0
  const ran = (n: string) => at.daemon.journal().filter(line => line === n).length
  const schedules = async () => (await snapshotOf(at.spool)).schedules
  const isPaused = async (is: boolean) =>
    (await schedules()).some(({ pausedSinceMs }) => (pausedSinceMs !== null) === is)
  const paused = async (is: boolean) => {
    const [schedule] = await schedules()
    const { spoold } = await import('../helpers/cli.js')
    if (!(await isPaused(is)))
      await spoold(['schedules', at.spool, is ? '--pause' : '--resume', schedule?.id ?? ''])
    return undefined
  }
  const readPaused = () => {
    const file = join(at.spool, '.spoold/paused')
    return existsSync(file) ? readFileSync(file, 'utf8') : ''
  }
  const auditLines = () =>
    readFileSync(join(at.spool, '.spoold/audit'), 'utf8')
      .split('\n')
      .filter(Boolean)
      .map(line => JSON.parse(line))

  for (const name of Object.keys(ACTIONS) as ActionName[])
    for (const javaScriptEnabled of name === 'cancel' ? [true] : [true, false])
      it(`${name}, ${javaScriptEnabled ? 'with' : 'without'} JavaScript`, async () => {
        const { prepare, before: first, path = '', isSchedule, fill, isDone } = CASES[name]
        const { button = WORDING[name].label } = CASES[name]
        const task = await prepare()
        if (task !== undefined) assert.equal(await state(task), first)
        if (name === 'resume') await changedPause()
        const who = await windowOf(at, at.tokenOf('admin', true), { javaScriptEnabled })
        const { page, complaints } = who
        const where = task === undefined ? path : `/tasks/${urlTextOf(task)}`
        await page.goto(urlOf(at, isSchedule ? '/schedules' : `/spools/${at.id}${where}`))
        await fill?.(page)
        if (WORDING[name].warning !== undefined) {
          await page.locator('main summary', { hasText: button }).click()
          await page.locator('details[open] p').first().waitFor()
        }
        const submit = WORDING[name].warning === undefined ? button : `${button} it`
        await page.getByRole('button', { name: submit, exact: true }).first().click()
        await page.locator('p.notice').waitFor()
        assert.match((await page.locator('p.notice').getAttribute('class')) ?? '', /good/)
        await until(`${name} is done`, () => isDone(task ?? ''), 20_000)
        const [announced, result] = auditLines()
          .filter(line => line.action === name)
          .slice(-2)
        assert.deepEqual(
          [announced?.who, announced?.role, announced?.result],
          ['admin-with-payload', 'admin', undefined],
        )
        assert.equal(result?.task, task)
        assert.ok(result?.result, 'the audit has a line with the result')
        assert.deepEqual(complaints, [])
        await page.context().close()
      })

  const changedPause = async () => {
    if (readPaused().includes('report')) return
    const { spoold } = await import('../helpers/cli.js')
    await spoold(['pause', at.spool, '--key', 'kind=report'])
  }

  it('on all tasks that a filter selects is done once their number is typed in, and not if it has changed', async () => {
    const names = await Promise.all(
      [0, 1, 2].map(() => stored(at.spool, '--at', '+2h', 'n=bulk', 'batch=b7')),
    )
    const { page } = await windowOf(at, at.tokenOf('admin', true), { javaScriptEnabled: false })
    const present = async () => {
      const all = await listed(at.spool)
      return names.filter(name => all.has(name)).length
    }
    const preview = async () => {
      await page.goto(urlOf(at, `/spools/${at.id}/find`))
      await page.getByLabel('Key and value').fill('batch=b7')
      await page.getByRole('button', { name: 'Find', exact: true }).click()
      assert.equal(await page.locator('tbody tr').count(), 3)
      await page.locator('section a.button', { hasText: 'Remove' }).click()
      await page.getByRole('heading', { name: 'Remove: 3 tasks' }).waitFor()
    }
    await preview()
    names.push(await stored(at.spool, '--at', '+2h', 'n=bulk', 'batch=b7')) // a task that comes after the preview
    await page.locator('input[name=typed]').fill('3')
    await page.getByRole('button', { name: 'Remove: 3 tasks' }).click()
    await page.getByText('nothing was done: there are 4 now').waitFor()
    assert.equal(await present(), 4)
    await page.goto(urlOf(at, `/spools/${at.id}/bulk/remove?key=batch%3Db7`))
    await page.locator('input[name=typed]').fill('4')
    await page.getByRole('button', { name: 'Remove: 4 tasks' }).click()
    await page.getByText('4 removed').waitFor()
    assert.equal(await present(), 0)
    assert.equal(auditLines().findLast(line => line.action === 'remove')?.count, 4)
    await page.context().close()
  })

  it('has no form for a viewer', async () => {
    const { page } = await windowOf(at, at.tokenOf('viewer', true))
    const paths = ['', '/held', '/workers', `/tasks/${urlTextOf(at.held)}`].map(
      path => `/spools/${at.id}${path}`,
    )
    for (const path of [...paths, '/schedules']) {
      await page.goto(urlOf(at, path))
      assert.equal(await page.locator('main form').count(), 0, path)
    }
    await page.context().close()
  })
})
