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
