import { readFileSync } from 'node:fs'
import { crypto } from '../base/crypto.js'

let known: string | undefined

/** Which start of the machine this is. Where that is unknown, each process has its own. */
export function bootId(): string {
  known ??= read() ?? crypto().randomUUID()
  return known
}

function read(): string | undefined {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return undefined
  }
}
