import { lstatSync, realpathSync, type Stats, statSync } from 'node:fs'
import { errnoOf } from '../base/errors.js'

/** The stats of the path's target; undefined if it does not exist or this process may not see it. */
export function statsOf(path: string): Stats | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}

/** undefined if the path does not exist or this process may not see it. */
export function realPathOf(path: string): string | undefined {
  try {
    return realpathSync(path)
  } catch {
    return undefined
  }
}

/** Such a link prevents a directory from being created at the path. */
export function isLinkToNothing(path: string): boolean {
  try {
    statSync(path)
    return false
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'ELOOP') return false
    return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true
  }
}
