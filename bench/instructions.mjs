// Counts instructions, which a busy machine changes less than times; where the machine counts none, processor time.
import { spawn, spawnSync } from 'node:child_process'
import { readdirSync, readlinkSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT, until } from './harness.mjs'

const TRIES = 3

const counts = event =>
  /^\d/.test(spawnSync('perf', ['stat', '-x,', '-e', event, 'true'], { encoding: 'utf8' }).stderr ?? '')

/** What the work of processes is counted in. Many virtual machines have no counter of instructions. */
const COUNTER = counts('instructions')
  ? { event: 'instructions', unit: 'million instructions', perUnit: 1e6 }
  : { event: 'task-clock', unit: 'ms of processor time', perUnit: 1 }
export const { unit: UNIT } = COUNTER

/** Counts the work of processes from now on, in the kernel too. Returns a function that stops and resolves with the `UNIT`s. */
export async function workOf(pids) {
  if (pids.length === 0) return () => 0
  const perf = spawn('perf', ['stat', '-x,', '-e', COUNTER.event, '-p', pids.join(',')])
  let output = ''
  perf.stderr.on('data', text => {
    output += text
  })
  const ended = new Promise((resolve, reject) => {
    perf.once('error', reject)
    perf.once('close', resolve)
  })
  await until('perf counts', () => perf.exitCode !== null || isCounting(perf.pid))
  return async () => {
    perf.kill('SIGINT')
    await ended
    const [count, , , , share] = output.trim().split('\n').at(-1).split(',')
    if (!/^\d+(\.\d+)?$/.test(count) || Number(share) < 100)
      throw new Error(`perf did not count all: ${output}`)
    return Number(count) / COUNTER.perUnit
  }
}

/** True if perf has opened its counters. */
function isCounting(pid) {
  try {
    const open = readdirSync(`/proc/${pid}/fd`).map(fd => readlinkSync(`/proc/${pid}/fd/${fd}`))
    return open.some(name => name.includes('perf_event'))
  } catch {
    return false // perf has just closed a descriptor
  }
}

/** When dist was built: another build would change the code under the daemon. */
export const builtAt = () =>
  Math.max(...readdirSync(join(ROOT, 'dist')).map(name => statSync(join(ROOT, 'dist', name)).mtimeMs))

/** Returns a measurement. If it fails, because something was not counted, another measurement takes its place. */
export async function sample(measure, say) {
  for (let tries = 1; ; tries++)
    try {
      return await measure()
    } catch (error) {
      if (tries === TRIES) throw error
      say(`dropped: ${error.message}`)
    }
}
