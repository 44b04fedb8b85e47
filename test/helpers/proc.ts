import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { after } from 'node:test'
import { childrenOf, isAlive } from './process.js'
import { until } from './until.js'

/** Returns a process's identity in the kernel: real, effective, saved and file-system ids, and supplementary groups. */
export function identityOf(pid: number): { uids: number[]; gids: number[]; groups: number[] } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const numbers = (field: string) =>
    (new RegExp(`^${field}:\\s*(.*)$`, 'm').exec(status)?.[1] ?? '').split(/\s+/).filter(Boolean).map(Number)
  return { uids: numbers('Uid'), gids: numbers('Gid'), groups: numbers('Groups') }
}

/** Returns the name that `ps` shows. */
export function titleOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trimEnd()
}

export function sessionOf(pid: number): number {
  // "pid (comm) state ppid pgrp session …", in which comm may contain any character
  return Number(
    readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')[3],
  )
}

export function openFile(pid: number, fd: number): string {
  return readlinkSync(`/proc/${pid}/fd/${fd}`)
}

/** Returns how many sockets a process has open besides its standard streams. Each connection is one more. */
export function socketsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).filter(fd => {
    try {
      return Number(fd) > 2 && openFile(pid, Number(fd)).startsWith('socket:')
    } catch {
      return false // closed meanwhile
    }
  }).length
}

/** Kills a daemon that has detached from its starter, and its workers, by pid, when the test ends. */
export function endWithTest(pid: number): void {
  after(() => {
    for (const each of [...childrenOf(pid), pid])
      try {
        process.kill(each, 'SIGKILL')
      } catch {}
  })
}

export async function untilGone(...pids: number[]): Promise<void> {
  await until(`${pids.join(', ')} are gone`, () => !pids.some(isAlive))
}
