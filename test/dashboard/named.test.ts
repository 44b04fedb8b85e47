import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import { send, startDashboard } from '../helpers/dashboard.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const HANDLER = (release: string) => `import { existsSync } from 'node:fs'
import { Tasks } from 'spoold'
export const tasks = new Tasks()
tasks.task('good', {}, () => {})
tasks.task('bad', { maxRetries: 1, retryDelay: 1 }, () => { throw new Error('no') })
tasks.task('dies', { maxRetries: 1, retryDelay: 3600 }, () => new Promise(() => setTimeout(() => process.exit(3), 200)))
tasks.task('slow', { maxConcurrency: 2, maxRetries: 1 }, async () => {
  while (!existsSync(${JSON.stringify(release)})) await new Promise(resolve => setTimeout(resolve, 20))
})`

it('the page of named tasks and the snapshot count the runs of each name, and the slots in use', async () => {
  const spool = spoolDirectory()
  const release = join(dirname(spool), 'release')
  const { place } = await startDashboard({
    hasTokens: false,
    spool,
    handler: HANDLER(release),
    ini: { 'spooler-processes': 4 },
  })
  const enqueue = async (task: string, times: number) => {
    for (let i = 0; i < times; i++)
      assert.equal((await spoold(['enqueue', '--spooler', spool, `task=${task}`, 'args=[]'])).code, 0)
  }
  await enqueue('good', 3)
  await enqueue('bad', 1)
  await enqueue('dies', 1)
  await enqueue('slow', 3)
  const statsOf = async (name: string) =>
    (await spoolSnapshotOf(spool)).named?.find(each => each.name === name)
  await until('all runs have been counted', async () => {
    const [good, bad, dies, slow] = await Promise.all(['good', 'bad', 'dies', 'slow'].map(statsOf))
    return (
      good?.done === 3 &&
      good.running === 0 &&
      bad?.started === 2 &&
      bad.retried === 1 &&
      bad.buried === 1 &&
      (dies?.killed ?? 0) >= 1 &&
      slow?.running === 2 &&
      slow.slots === 2
    )
  })
  const rowIn = (body: unknown, name: string) =>
    new RegExp(`<td[^>]*>${name}</td>(.*?)</tr>`, 's').exec(String(body))?.[1]?.replace(/<[^>]+>/g, ' ') ?? ''
  const body = await until('the page shows that the third slow task waits for a slot', async () => {
    const { text } = await send(place, '/spools/spool/named')
    return /^\s*2 of 2\s+1/.test(rowIn(text, 'slow')) ? text : undefined
  })
  const row = (name: string) => rowIn(body, name)
  assert.match(row('good'), /^\s*0\s+3 \([0-9.]+\/[sh]\)/)
  assert.match(row('bad'), /^\s*0\s+2 \([0-9.]+\/[sh]\)\s+1\s+1/)
  writeFileSync(release, '')
  await until('the slow tasks have ended', async () => (await statsOf('slow'))?.done === 3)
})
