import { accessSync, constants, lstatSync, realpathSync, type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { errnoOf, messageOf } from '../base/errors.js'

/** The stats of the path's target; undefined if it does not exist or this process may not see it. */
export function statsOf(path: string): Stats | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}

/** True if there is nothing at the path, or at the end of the link there; false if this process may not know. */
export function isMissing(path: string): boolean {
  try {
    statSync(path)
    return false
  } catch (error) {
    return errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR'
  }
}

/** The real path; undefined if the path does not exist or this process may not see it. */
export function realPathOf(path: string): string | undefined {
  try {
    return realpathSync(path)
  } catch {
    return undefined
  }
}

/** True if the path is a link to nothing, which prevents a directory from being created there. */
export function isLinkToNothing(path: string): boolean {
  try {
    statSync(path)
    return false
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'ELOOP') return false
    return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true
  }
}

/** Why this process may not read a file, for people; undefined if it may. @param path absolute */
export function whyUnreadable(path: string): string | undefined {
  try {
    accessSync(path, constants.R_OK)
    return undefined
  } catch (error) {
    return (errnoOf(error) === 'EACCES' ? whatStops(path) : undefined) ?? messageOf(error)
  }
}

/** Describes the first directory on the way to a file that this process may not enter, or the file if it may not read that. */
function whatStops(path: string): string | undefined {
  const way = [path]
  for (let above = dirname(path); above !== way[0]; above = dirname(above)) way.unshift(above)
  for (const each of way) {
    try {
      accessSync(each, each === path ? constants.R_OK : constants.X_OK)
    } catch {
      const stats = statsOf(each)
      if (stats === undefined) return undefined
      const mode = (stats.mode & 0o7777).toString(8).padStart(4, '0')
      return `${each} has mode ${mode} and belongs to uid ${stats.uid}`
    }
  }
  return undefined
}
