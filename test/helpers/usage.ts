import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { childrenOf, TestProcess } from './process.js'

/** The CPU use of a daemon and of all that it starts, also of what ends meanwhile, in cores: 1 is one full core. */
export async function cpuShare(daemon: TestProcess, ms: number): Promise<number> {
  const [before, since] = [cpuMsOfTree(daemon.pid), performance.now()]
  await setTimeout(ms)
  return (cpuMsOfTree(daemon.pid) - before) / (performance.now() - since)
}

/** A master and its worker, with memory several times that of a process that does nothing. */
const BARE_PROCESSES = 5

/**
 * The CPU use of a daemon in percent of a core, without what waking costs this machine: where the memory of whoever
 * sleeps is reclaimed, each wake takes some 10 ms, and a process that does nothing else twice a second 2 %.
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

/** Looks at a file twice a second, as a daemon for a pause. */
const WAKES = `
  const { lstat } = require('node:fs')
  setInterval(() => lstat('/spoold-is-paused', () => {}), 500)
  console.log('wakes')`

/** The CPU time of a process, user and system, in the kernel's ticks of 10 ms. */
function ticksOf(pid: number): number {
  const [user = 0, system = 0] = timesOf(pid)
  return user + system
}

/** Its own, user and system, and then that of its children that it has waited for. */
function timesOf(pid: number): number[] {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/^.*\) /s, '')
    .split(' ')
  return fields.slice(11, 15).map(Number)
}

/** The CPU time of a process and of all that it has ever started, in milliseconds. */
export function cpuMsOfTree(pid: number): number {
  try {
    const own = timesOf(pid).reduce((sum, ticks) => sum + ticks * 10, 0)
    return childrenOf(pid).reduce((sum, child) => sum + cpuMsOfTree(child), own)
  } catch {
    return 0 // it has ended, and counts for its parent
  }
}

/** The CPU time of a process, in milliseconds, to within 10. */
export const cpuMsOf = (pid: number) => ticksOf(pid) * 10

export function memoryMb(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
}

/** The most resident memory that a process ever had. */
export function peakMemoryMb(pid: number): number {
  return Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
}

export function openFiles(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length
}
