import { hostname } from 'node:os'

/**
 * The sockets of the daemons that run a spool, in its `.spoold`: `control`, and `control.2`, `control.3`, … of further daemons.
 * Where other hosts see the directory too, each host has names of its own (`control@web1`): a socket of another host looks
 * dead from here.
 */
const BASE = 'control'
/** More daemons than this on one spool have no socket there. */
const MAX_DAEMONS = 16

/** Held for the moment in which a daemon takes its name. */
export const CONTROL_LOCK = 'control.lock'

/** The names that a daemon tries, in turn. @param isLocal no other host sees the directory */
export function controlNames(isLocal: boolean): string[] {
  const base = isLocal ? BASE : `${BASE}@${hostname()}`
  return Array.from({ length: MAX_DAEMONS }, (_, i) => (i === 0 ? base : `${base}.${i + 1}`))
}

export function isControlName(name: string): boolean {
  return /^control(?:@[^/]+)?(?:\.\d+)?$/.test(name)
}
