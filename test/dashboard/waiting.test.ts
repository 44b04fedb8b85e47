import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { spoolSnapshotOf } from '../helpers/control.js'
import { give, send, startDashboard } from '../helpers/dashboard.js'
import { drop, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const COUNT = 2300
/** The place of a task in the order of runs, which neither the names nor the storing of tasks follow. */
const placeOf = (i: number) => (i * 7) % COUNT
const EXPECTED = Array.from({ length: COUNT }, (_, i) => i).sort((a, b) => placeOf(a) - placeOf(b))

/** Returns a spool of tasks that are due in that order, either since 2020 or from 2096 on. */
function filled(at: 'now' | 'later'): string {
  const spool = spoolDirectory()
  for (let i = 0; i < COUNT; i++) {
    const name = `uwsgi_spoolfile_on_h_1_${i}_1_${1_600_000_000 + placeOf(i)}_1`
    give(
      drop(
        spool,
        name,
        packet({ n: String(i) }),
        (at === 'now' ? 1_600_000_000 : 4_000_000_000) + placeOf(i),
      ),
    )
  }
  return spool
}

/** Returns the numbers of the tasks on a page, and what the link below them leads to. */
function shownIn(page: string): { tasks: number[]; next: string | undefined } {
  const refs = [...page.matchAll(/<a class="path" href="[^"]*\/tasks\/([A-Za-z0-9_-]+)"/g)]
  return {
    tasks: refs.map(([, ref = '']) => Number(Buffer.from(ref, 'base64url').toString().split('_')[5])),
    next: /<a href="([^"]+)">Next<\/a>/.exec(page)?.[1],
  }
}

async function walk(spool: string, query: string, isReady: (due: number, waiting: number) => boolean) {
  const { place } = await startDashboard({
    spool,
    hasTokens: false,
    handler: 'export default () => new Promise(() => setInterval(() => {}, 1000))',
    ini: { 'worker-reload-mercy': 1 },
  })
  await until('the daemon knows all tasks', async () => {
    const { due, waiting } = (await spoolSnapshotOf(spool)).tasks
    return isReady(due, waiting)
  })
  const found: number[] = []
  let pages = 0
  for (let path: string | undefined = `/spools/spool/waiting${query}`; path !== undefined; pages++) {
    const { status, text } = await send(place, path.replaceAll('&amp;', '&'))
    assert.equal(status, 200, text)
    const { tasks, next } = shownIn(text)
    assert.ok(tasks.length <= 50, `${tasks.length} on a page`)
    found.push(...tasks)
    path = pages < 3 ? next : next?.replace(/from=\d+/, digits => `from=${Math.max(+digits.slice(5), 2200)}`)
  }
  return { found, pages }
}

describe('the page of waiting tasks', () => {
  it('leads through all tasks that start next, in order, far beyond what the daemon tells at once', async () => {
    const { found, pages } = await walk(filled('now'), '', due => due >= COUNT - 20)
    assert.deepEqual(found, [...EXPECTED.slice(0, 200), ...EXPECTED.slice(2200)])
    assert.equal(pages, 6)
  })

  it('leads through all tasks that wait for their time', async () => {
    const { found } = await walk(filled('later'), '?show=later', (_, waiting) => waiting === COUNT)
    assert.deepEqual(found, [...EXPECTED.slice(0, 200), ...EXPECTED.slice(2200)])
  })
})
