import { readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'

interface ProcessMemory {
  readonly rssBytes: number | null
  readonly vszBytes: number | null
}

/** The resident and the virtual memory of a process; null: it is gone, or there is no /proc. */
export async function memoryOf(pid: number): Promise<ProcessMemory> {
  try {
    const status = await readFile(`/proc/${pid}/status`, 'latin1')
    return { rssBytes: bytesIn(status, 'VmRSS'), vszBytes: bytesIn(status, 'VmSize') }
  } catch {
    return { rssBytes: null, vszBytes: null }
  }
}

function bytesIn(status: string, field: 'VmRSS' | 'VmSize'): number | null {
  const [, kilobytes] = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status) ?? []
  return kilobytes === undefined ? null : Number(kilobytes) * 1024
}

/** The memory of a process and of all that it has started. */
export interface TreeMemory {
  /** The sum; pages that processes share count once for each. */
  readonly rssBytes: number
  /** The largest address space. */
  readonly vszBytes: number
}

const PAGE_BYTES = 4096
/** A program that starts more at once is seen in part. */
const MAX_PROCESSES = 256

/** Zeros for a process that is gone, and where there is no /proc. Costs about 0.1 ms per process. */
export function treeMemoryOf(pid: number): TreeMemory {
  const pids = [pid]
  let [rssPages, vszPages] = [0, 0]
  for (const each of pids) {
    const [vsz = 0, rss = 0] = (read(`/proc/${each}/statm`) ?? '').split(' ').map(Number)
    rssPages += rss
    vszPages = Math.max(vszPages, vsz)
    if (pids.length < MAX_PROCESSES) pids.push(...childrenOf(each))
  }
  return { rssBytes: rssPages * PAGE_BYTES, vszBytes: vszPages * PAGE_BYTES }
}

/** Any thread may have started some. */
function childrenOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap(thread =>
      (read(`/proc/${pid}/task/${thread}/children`) ?? '').split(' ').filter(Boolean).map(Number),
    )
  } catch {
    return []
  }
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return undefined
  }
}
