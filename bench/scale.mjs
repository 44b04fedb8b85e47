// A directory of a million files: time to the first task, memory of the master, throughput, and a million waiting tasks.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import {
  childrenOf,
  cpuSecondsOf,
  fill,
  leftOnTmpfs,
  median,
  memoryOf,
  startSpoold,
  until,
  withDirectory,
} from './harness.mjs'

const FILES = 1_000_000
const MIDDLE = 100_000
const SMALL = 10_000

export const title = 'A million files'
export const about = 'tmpfs, two processes, no-op tasks, quiet.'

export async function run({ scale, say }) {
  const count = Math.round(FILES * scale)
  const rows = []
  for (const [name, options] of [
    ['', []],
    ['ordered: ', ['--spooler-ordered']],
  ]) {
    const large = await drain(count, options)
    const small = median(await several(5, async () => (await drain(SMALL, options)).rate))
    const middle = await several(3, () => drain(count * (MIDDLE / FILES), options))
    say(`${name}${Math.round(large.rate)} / ${Math.round(small)}`)
    rows.push({
      case: `${name}first task after start`,
      figure: `${large.firstSeconds.toFixed(2)} s`,
      target: '≤ 0.5 s',
    })
    rows.push({
      case: `${name}memory of the master, peak`,
      figure: `${Math.round(large.memory)} MB`,
      target: '≤ 120 MB',
    })
    rows.push({
      case: `${name}tasks per second over ${shown(count)}, against ${shown(SMALL)}`,
      figure: `${shown(large.rate)} / ${shown(small)} = ${(large.rate / small).toFixed(2)}`,
      target: '≥ 1.0',
    })
    for (const [process, target] of [
      ['master', '≤ 2.5 µs'],
      ['worker', ''],
    ])
      rows.push({
        case: `${name}CPU per task of the ${process}, from ${shown(count * (MIDDLE / FILES))} tasks to ${shown(count)}`,
        figure: `${marginal(large, middle, process, count).toFixed(1)} µs`,
        target,
      })
  }
  const waiting = await wait(count, scale)
  rows.push({
    case: `${shown(count)} due next year: CPU of the master`,
    figure: `${(waiting.cpuShare * 100).toFixed(2)} %`,
    target: '≤ 1 %',
  })
  rows.push({
    case: `${shown(count)} due next year: memory of the master, now / peak`,
    figure: `${Math.round(waiting.memory)} / ${Math.round(waiting.peak)} MB`,
    target: '≤ 250 MB',
  })
  return { rows }
}

function shown(number) {
  return Math.round(number).toLocaleString('en')
}

/** The cost of each additional task, µs. */
function marginal(large, middle, process, count) {
  const seconds = large.cpu[process] - median(middle.map(({ cpu }) => cpu[process]))
  return (seconds * 1e6) / (count * (1 - MIDDLE / FILES))
}

async function several(times, measure) {
  const results = []
  for (let i = 0; i < times; i++) results.push(await measure())
  return results
}

async function drain(count, options) {
  return withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    fill(spool, count)
    const total = leftOnTmpfs(spool)
    const startedAt = performance.now()
    const daemon = startSpoold(directory, spool, ['--spooler-processes', '2', '--spooler-quiet', ...options])
    try {
      await until('it begins', () => leftOnTmpfs(spool) < total)
      const firstAt = performance.now()
      await until('all is done', () => leftOnTmpfs(spool) < 2)
      const rate = (count * 1000) / (performance.now() - firstAt)
      const workers = childrenOf(daemon.pid).map(cpuSecondsOf)
      const cpu = { master: cpuSecondsOf(daemon.pid), worker: workers.reduce((sum, each) => sum + each, 0) }
      return { firstSeconds: (firstAt - startedAt) / 1000, rate, memory: memoryOf(daemon.pid), cpu }
    } finally {
      await daemon.stop()
    }
  })
}

async function wait(count, scale) {
  return withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    mkdirSync(spool)
    fill(spool, count, { at: Math.floor(Date.now() / 1000) + 365 * 86_400 })
    const daemon = startSpoold(directory, spool, ['--spooler-processes', '2', '--spooler-quiet'])
    try {
      // the first scan is over when the CPU time per second is small
      let before = cpuSecondsOf(daemon.pid)
      await until('it has seen all', async () => {
        await setTimeout(2000)
        const now = cpuSecondsOf(daemon.pid)
        const isQuiet = now > 0.3 && now - before < 0.1
        before = now
        return isQuiet
      })
      const seconds = Math.max(10, 65 * scale) // two frequencies of 30 s
      const cpu = cpuSecondsOf(daemon.pid)
      await setTimeout(seconds * 1000)
      return {
        cpuShare: (cpuSecondsOf(daemon.pid) - cpu) / seconds,
        memory: memoryOf(daemon.pid, 'VmRSS'),
        peak: memoryOf(daemon.pid),
      }
    } finally {
      await daemon.stop()
    }
  })
}
