import { readFile } from 'node:fs/promises'

/** The resident memory of a process, in bytes; null: it is gone, or there is no /proc. */
export async function residentBytes(pid: number): Promise<number | null> {
  try {
    const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, 'latin1')) ?? []
    return kilobytes === undefined ? null : Number(kilobytes) * 1024
  } catch {
    return null
  }
}
