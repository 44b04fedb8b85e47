import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import type { TestProcess } from './process.js'

/** How much of one core a daemon and its workers take, from 0 to 1 and more. */
export async function cpuShare(daemon: TestProcess, ms: number): Promise<number> {
  const ticks = () => [daemon.pid, ...daemon.children()].reduce((sum, pid) => sum + ticksOf(pid), 0)
  const [before, since] = [ticks(), performance.now()]
  await setTimeout(ms)
  return shareOf(ticks() - before, performance.now() - since)
}

/** CPU time of one process, user and system, in the kernel's hundredths of a second. */
function ticksOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/^.*\) /s, '')
    .split(' ')
  return Number(fields[11]) + Number(fields[12])
}

const shareOf = (ticks: number, ms: number) => (ticks * 10) / ms

export function memoryMb(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
}

export function openFiles(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length
}
