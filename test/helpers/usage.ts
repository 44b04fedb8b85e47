import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { childrenOf, TestProcess } from './process.js'

/** Returns the CPU use of a daemon and of all that it starts, in cores: 1 is a full core. Processes that end meanwhile count. */
export async function cpuShare(daemon: TestProcess, ms: number): Promise<number> {
  const [before, since] = [cpuMsOfTree(daemon.pid), performance.now()]
  await setTimeout(ms)
  return (cpuMsOfTree(daemon.pid) - before) / (performance.now() - since)
}

/** A master and its worker count as this many bare processes, because they have several times the memory. */
const BARE_PROCESSES = 5

/**
 * Returns the CPU use of a daemon in percent of a core, without the cost of waking up. Where the memory of sleeping processes is
 * reclaimed, each wake takes some 10 ms, so that a process that only wakes twice a second takes 2 %.
 */
export async function cpuPercentAwake(daemon: TestProcess, ms: number): Promise<number> {
  const bare = new TestProcess(process.execPath, ['-e', WAKES])
  await bare.waitFor('wakes')
  const before = ticksOf(bare.pid)
  const share = await cpuShare(daemon, ms)
  const bareShare = ((ticksOf(bare.pid) - before) * 10) / ms
  bare.child.kill('SIGKILL')
  await bare.exited
  return Math.max(0, 100 * (share - BARE_PROCESSES * bareShare))
}

/** A program that looks at a file twice a second, as a daemon looks for a pause. */
const WAKES = `
  const { lstat } = require('node:fs')
  setInterval(() => lstat('/spoold-is-paused', () => {}), 500)
  console.log('wakes')`

/** Returns the CPU time of a process, user and system, in the kernel's ticks of 10 ms. */
function ticksOf(pid: number): number {
  const [user = 0, system = 0] = timesOf(pid)
  return user + system
}

/** Returns CPU times in ticks: user and system of the process, then user and system of the children that it has waited for. */
function timesOf(pid: number): number[] {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/^.*\) /s, '')
    .split(' ')
  return fields.slice(11, 15).map(Number)
}

/** Returns the CPU time of a process and of all that it has ever started, in milliseconds. */
export function cpuMsOfTree(pid: number): number {
  try {
    const own = timesOf(pid).reduce((sum, ticks) => sum + ticks * 10, 0)
    return childrenOf(pid).reduce((sum, child) => sum + cpuMsOfTree(child), own)
  } catch {
    return 0 // the process has ended, and counts for its parent
  }
}

/** Returns the CPU time of a process in milliseconds, to within 10. */
export const cpuMsOf = (pid: number) => ticksOf(pid) * 10

export function memoryMb(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
}

/** Returns the most resident memory that a process ever had, in MiB. */
export function peakMemoryMb(pid: number): number {
  return Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
}

export function openFiles(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length
}
