// What tasks that wait for a slot cost the tasks behind them, and the master.
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { encodePacket } from '../build/src/formats/protocol/packet.js'
import {
  BIN,
  childrenOf,
  cpuSecondsOf,
  isInstalled,
  leftOnTmpfs,
  startSpoold,
  until,
  withDirectory,
} from './harness.mjs'
import { sample, UNIT, workOf } from './instructions.mjs'

/** Tasks without a limit, behind the others. */
const OTHERS = 20_000
const REST_MS = 5000
/** Deadline of each wait, long enough for a machine that others use. */
const LONGEST_MS = 300_000

const tasksOf = directory => `
import { writeFileSync } from 'node:fs'
import { Tasks } from 'spoold'
export const tasks = new Tasks({ maxRetries: 1 })
tasks.task('few', { maxConcurrency: 1 }, () => new Promise(() => setInterval(() => {}, 1e8)))
let ran = 0
tasks.task('other', () => {
  if (ran++ === 0) writeFileSync(${JSON.stringify(join(directory, 'other'))}, '')
})
`

/** Stores tasks of a name, in the order of the calls. */
function fill(spool, task, count, first) {
  const bytes = encodePacket(
    Object.entries({ task, args: '[]' }).map(pair => pair.map(text => Buffer.from(text))),
  )
  for (let n = first; n < first + count; n++)
    writeFileSync(
      `${spool}/uwsgi_spoolfile_on_bench_1_${n}_1_${1795238706 + Math.floor(n / 1e6)}_${n % 1e6}`,
      bytes,
    )
}

/** Returns how many tasks wait for a slot, as the daemon says. */
async function waitingIn(spool) {
  const { stdout } = await promisify(execFile)(process.execPath, [BIN, 'status', '--json', spool]).catch(
    bad => bad,
  )
  return JSON.parse(stdout).spools[0].tasks.parked.slot ?? 0
}

/** Measures a daemon in which one task runs for ever, `count` tasks wait for its slot, and others come behind them. */
function measure(count) {
  return withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    mkdirSync(spool)
    fill(spool, 'few', count + 1, 1)
    fill(spool, 'other', 1, count + 2)
    const options = ['--spooler-processes', '3', '--spooler-quiet']
    const since = performance.now()
    const daemon = startSpoold(directory, spool, options, '--spooler', tasksOf(directory))
    try {
      await until('another one starts', () => existsSync(join(directory, 'other')), LONGEST_MS)
      const first = (performance.now() - since) / 1000
      // the other task may start before all are opened
      await until('all are opened', async () => (await waitingIn(spool)) === count, LONGEST_MS, 1000)
      await setTimeout(REST_MS)
      const before = leftOnTmpfs(spool)
      const [cpu, at] = [cpuSecondsOf(daemon.pid), performance.now()]
      await setTimeout(REST_MS)
      const share = (1e5 * (cpuSecondsOf(daemon.pid) - cpu)) / (performance.now() - at)
      const counted = await workOf([daemon.pid, ...childrenOf(daemon.pid)])
      fill(spool, 'other', OTHERS, count + 3)
      await until('the others have run', () => leftOnTmpfs(spool) <= before, LONGEST_MS)
      return { first, share, work: (await counted()) / OTHERS }
    } finally {
      process.kill(daemon.pid, 'SIGQUIT') // one task never ends
      await daemon.stop()
    }
  })
}

export const title = 'Tasks that wait for a slot'
export const about = `tmpfs, three processes, one of which runs a task with \`maxConcurrency: 1\` for ever. So many wait for it; "first" is the time
from the start of the daemon until a task without a limit starts that is behind all of them, and "master" the share of a processor that the
master needs while nothing else is there. Then ${OTHERS.toLocaleString('en')} no-op tasks without a limit come: "rate" is how many of
them run per ${UNIT} (perf stat, user and kernel, of all processes), as a multiple of how many do when none waits.`

export async function run({ scale, say }) {
  if (!isInstalled('perf')) return undefined
  const rows = []
  let alone
  for (const count of [0, 100_000, 1_000_000].map(each => Math.round(each * scale))) {
    const { first, share, work } = await sample(() => measure(count), say)
    alone ??= work
    say(
      `${count} wait: ${first.toFixed(2)} s, master ${share.toFixed(2)} %, ${work.toFixed(3)} ${UNIT} per other task`,
    )
    rows.push({
      'that wait': count.toLocaleString('en'),
      'first, s': first,
      'master, %': share,
      rate: alone / work,
    })
  }
  return { rows }
}
