// `spoold status` of a daemon with a million due tasks, from exec to its end.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { BIN, fill, median, startSpoold, until, withDirectory } from './harness.mjs'

const FILES = 1_000_000
const RUNS = 15

export const title = 'Status'
export const about =
  'From exec to exit, beside `node -e 0`. tmpfs; one worker, which is busy with its first task all the time; the fastest and the median of 15.'

export async function run({ scale, say }) {
  const rows = []
  for (const count of [0, FILES * scale]) {
    const { status, node } = await measure(count)
    say(`${count}: ${median(status).toFixed(0)} ms`)
    rows.push({
      case: `status, ${count.toLocaleString('en')} due tasks`,
      fastest: `${Math.min(...status).toFixed(0)} ms`,
      median: `${median(status).toFixed(0)} ms`,
      'node -e 0': `${median(node).toFixed(0)} ms`,
      target: '≤ 300 ms',
    })
  }
  return { rows }
}

function measure(count) {
  return withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    fill(spool, Math.max(1, count))
    const options = ['--spooler-quiet', '--worker-reload-mercy', '0']
    const daemon = startSpoold(directory, spool, options, '--spooler', BUSY)
    try {
      await until('it runs', () => daemon.log().includes('is running'))
      await setTimeout(1000)
      const [status, node] = [[], []]
      for (let i = 0; i < RUNS; i++) {
        status.push(timed([BIN, 'status', spool]))
        node.push(timed(['-e', '0']))
        await setTimeout(300) // so that each command gets its own snapshot: those who ask within 200 ms share one
      }
      return { status, node }
    } finally {
      await daemon.stop()
    }
  })
}

const BUSY = 'export default () => new Promise(() => {})\n'

function timed(args) {
  const begun = performance.now()
  execFileSync(process.execPath, args, { stdio: 'ignore' })
  return performance.now() - begun
}
