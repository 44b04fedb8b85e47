import { hostname } from 'node:os'

/**
 * The sockets of the daemons that run a spool, in its `.spoold`: `control`, and `control.2`, `control.3`, … of further daemons.
 * Where other hosts see the directory too, each host has names of its own (`control@web1`): a socket of another host looks
 * dead from here.
 */
const BASE = 'control'
/** The maximum number of daemons with a socket in one spool. Further ones have none. */
const MAX_DAEMONS = 16

/** The lock that a daemon holds while it takes its name. */
export const CONTROL_LOCK = 'control.lock'

/** Returns the names that a daemon tries, in order. @param isLocal true if no other host sees the directory */
export function controlNames(isLocal: boolean): string[] {
  const base = isLocal ? BASE : `${BASE}@${hostname()}`
  return Array.from({ length: MAX_DAEMONS }, (_, i) => (i === 0 ? base : `${base}.${i + 1}`))
}

export function isControlName(name: string): boolean {
  return /^control(?:@[^/]+)?(?:\.\d+)?$/.test(name)
}
