import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import type { TestProcess } from './process.js'

/** How much of one core a daemon and its workers take. */
export async function cpuShare(daemon: TestProcess, ms: number): Promise<number> {
  const ticks = () =>
    [daemon.pid, ...daemon.children()].reduce((sum, pid) => {
      const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
        .replace(/^.*\) /s, '')
        .split(' ')
      return sum + Number(fields[11]) + Number(fields[12])
    }, 0)
  const [before, since] = [ticks(), performance.now()]
  await setTimeout(ms)
  return ((ticks() - before) * 10) / (performance.now() - since)
}

export function memoryMb(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
}

export function openFiles(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length
}
