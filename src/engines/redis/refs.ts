import type { Ref } from '../../task/ref.js'

/** A job whose lock a master has, until a worker that may run it takes the lock over. */
export interface HeldJob {
  readonly id: string
  readonly token: string
}

const HELD = 'held'

/** A ref is a ticket for the next job, whatever that is, or names a job that its master holds. */
export function heldRef({ id, token }: HeldJob): Ref {
  return `${HELD} ${id} ${token}`
}

/** @returns undefined: a ticket for the next job */
export function heldJobOf(ref: Ref): HeldJob | undefined {
  const [kind, id, token] = ref.split(' ')
  return kind === HELD && id !== undefined && token !== undefined ? { id, token } : undefined
}

export function leaseOf(id: string, token: string): string {
  return `${id} ${token}`
}

/** The job of a lease, and the token of its lock. */
export function jobOfLease(lease: string): HeldJob | undefined {
  const [id, token] = lease.split(' ')
  return id !== undefined && token !== undefined ? { id, token } : undefined
}

/** The token of a lock that goes from a worker, which had this ref, to its master. */
export function tokenFor(ref: Ref): string {
  return ref.replaceAll(' ', '/')
}
