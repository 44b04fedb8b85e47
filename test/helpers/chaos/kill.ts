import { closeSync, constants, openSync, readdirSync, readFileSync, readlinkSync, readSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { HEADER_BYTES } from '#src/formats/protocol/header.js'
import { lastValue, parseVars } from '#src/formats/protocol/vars.js'
import { tryHold } from '#src/system/libc.js'
import { childrenOf } from '../process.js'

/** A task that a process had open when it was examined. */
export interface HeldTask {
  readonly n: string
  readonly path: string
  /** The packet's fourth byte. */
  readonly state: number
  /** True if somebody holds a record lock on the task. */
  readonly isLocked: boolean
}

/** A uWSGI spooler runs at a lower priority, so on a busy machine it takes long to handle signals. */
const STOPPED_WITHIN_MS = 30_000
const MAX_PACKET_BYTES = HEADER_BYTES + 0xffff

export function signalQuietly(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal)
  } catch {
    return false
  }
}

/** Sends SIGSTOP to a process and waits until it has stopped. @returns false if it is gone */
export async function freeze(pid: number): Promise<boolean> {
  if (!signalQuietly(pid, 'SIGSTOP')) return false
  for (const deadline = performance.now() + STOPPED_WITHIN_MS; performance.now() < deadline; ) {
    const state = stateOf(pid)
    if (state === 'T' || state === 't') return true
    if (state === undefined || state === 'Z' || state === 'X') return false
    await setTimeout(1)
  }
  throw new Error(`process ${pid} did not stop`)
}

function stateOf(pid: number): string | undefined {
  try {
    return /^\d+ \(.*\) (\S)/s.exec(readFileSync(`/proc/${pid}/stat`, 'latin1'))?.[1]
  } catch {
    return undefined
  }
}

/** Returns the tasks that a process has open. Exact only while the process is stopped. */
export async function heldBy(pid: number, spool: string): Promise<HeldTask[]> {
  const held: HeldTask[] = []
  for (const fd of entriesOf(`/proc/${pid}/fd`)) {
    const file = `/proc/${pid}/fd/${fd}`
    const task = taskAt(file, spool)
    if (task !== undefined) held.push({ ...task, isLocked: await isLocked(file) })
  }
  return held
}

async function isLocked(file: string): Promise<boolean> {
  const fd = openSync(file, constants.O_RDWR) // opens it anew: another lock conflicts with that of the process
  try {
    return !(await tryHold(fd))
  } finally {
    closeSync(fd)
  }
}

type TaskInFile = Omit<HeldTask, 'isLocked'>

function taskAt(file: string, spool: string): TaskInFile | undefined {
  try {
    const path = readlinkSync(file)
    return path.startsWith(`${spool}/`) ? taskIn(file, path.slice(spool.length + 1)) : undefined
  } catch {
    return undefined
  }
}

/** Returns the task in a file; undefined if the file is a directory, a draft, or gone. */
export function taskIn(file: string, path: string): TaskInFile | undefined {
  try {
    const bytes = readPacket(file)
    const vars = parseVars(bytes.toString('latin1'), HEADER_BYTES, HEADER_BYTES + bytes.readUInt16LE(1))
    const n = 'fault' in vars ? undefined : lastValue(vars, 'n')
    return n === undefined ? undefined : { n, path, state: bytes[3] ?? 0 }
  } catch {
    return undefined
  }
}

/** Reads a packet without changing the access time. */
function readPacket(file: string): Buffer {
  const fd = openSync(file, constants.O_RDONLY | constants.O_NOATIME)
  try {
    const bytes = Buffer.alloc(MAX_PACKET_BYTES)
    return bytes.subarray(0, readSync(fd, bytes, 0, bytes.length, 0))
  } finally {
    closeSync(fd)
  }
}

function entriesOf(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}

/** Returns all descendants of a process. */
export function descendantsOf(pid: number): number[] {
  return childrenOf(pid).flatMap(child => [child, ...descendantsOf(child)])
}
