import { lstatSync, type Stats, statSync } from 'node:fs'
import { errnoOf } from '../base/errors.js'

/** What a path leads to; undefined when that is nothing, or nothing that this process may see. */
export function statsOf(path: string): Stats | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}

/** No directory can be made in its place. */
export function isLinkToNothing(path: string): boolean {
  try {
    statSync(path)
    return false
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'ELOOP') return false
    return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true
  }
}
