import { type Stats, statSync } from 'node:fs'

/** What a path leads to; undefined when that is nothing, or nothing that this process may see. */
export function statsOf(path: string): Stats | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}
