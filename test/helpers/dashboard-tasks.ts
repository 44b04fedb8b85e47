import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { spoold } from './cli.js'
import { give, startDashboard, type TestDashboard } from './dashboard.js'
import { listed } from './spools.js'
import { until } from './until.js'
import { spoolDirectory } from './workspace.js'

/** A dashboard over tasks in each state. */
export interface Spooled extends TestDashboard {
  readonly waiting: string
  readonly held: string
  readonly dead: string
  readonly running: string
}

/** A handler that journals a task's `n`. `kind` says how a run ends, or that it adds a schedule. */
const HANDLER = `import { addTimer, registerSignal } from 'spoold'
registerSignal(7, 'spooler', () => JOURNAL('signal 7'))
export default async ({ kind, n }, task) => {
  JOURNAL(n)
  if (kind === 'schedules') addTimer(7, 86400)
  if (kind === 'fails') throw new Error('no answer from zq-31 <img src=x onerror=alert(1)>')
  if (kind === 'hangs') await new Promise(() => setInterval(() => {}, 1000))
  return task.SPOOL_OK
}`

const NASTY = 'script=<script>alert(1)</script>'

/** Stores a task as its owner does. @returns its name */
export async function stored(spool: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await spoold(['enqueue', '--spooler', spool, ...args])
  if (code !== 0) throw new Error(stderr)
  return stdout.trim().split('/').at(-1) ?? ''
}

export async function changed(command: string, spool: string, name: string): Promise<void> {
  const { code, stderr } = await spoold([command, `${spool}/${name}`])
  if (code !== 0) throw new Error(stderr)
}

/** Starts a dashboard over tasks in each state. This takes seconds, so one dashboard serves all tests of a suite. */
export async function spooled(): Promise<Spooled> {
  const spool = spoolDirectory()
  const journal = join(dirname(spool), 'journal')
  writeFileSync(journal, '')
  give(journal)
  const dashboard = await startDashboard({
    spool,
    handler: HANDLER,
    ini: {
      'spooler-dashboard-enqueue': true,
      'spooler-processes': 3,
      'spooler-cheaper': 2,
      'spooler-retry-delay': 3600,
      'signal-cron': '7 TZ=UTC 0 3 1 1 *',
    },
  })
  const later = (n: string) => stored(spool, '--at', '+2h', `n=${n}`, 'to=zq-31', NASTY)
  const [waiting, held, dead] = [await later('waiting'), await later('held'), await later('dead')]
  await changed('hold', spool, held)
  await changed('cancel', spool, dead)
  await stored(spool, 'n=fails', 'kind=fails', NASTY)
  const running = await stored(spool, 'n=runs', 'kind=hangs', NASTY)
  await until(
    'one runs and one has failed',
    async () => {
      const states = [...(await listed(spool)).values()].map(({ state }) => state)
      return states.includes('running') && states.includes('retrying')
    },
    20_000,
  )
  return { ...dashboard, waiting, held, dead, running }
}
