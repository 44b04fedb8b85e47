import type { Ref } from '../../base/task/ref.js'

/** A job whose lock a master has, until a worker that may run it takes the lock over. */
export interface HeldJob {
  readonly id: string
  readonly token: string
  /** Whose queue it is in; undefined: the spool's own. No task has a space in its name. */
  readonly task?: string | undefined
}

/** A right to pull one job, whatever that is. */
interface Ticket {
  /** Whose queue it is for; undefined: the spool's own. */
  readonly task: string | undefined
  /** Tasks that have a queue of their own may be in front: they are moved there first. */
  readonly isSifting: boolean
}

const HELD = 'held'
const LIMITED = 'limited'
const SIFTING = 'sifting'

/** A ref is a ticket for the next job of a queue, or names a job that its master holds. */
export function heldRef({ id, token, task }: HeldJob): Ref {
  return `${HELD} ${id} ${token}${task === undefined ? '' : ` ${task}`}`
}

/** @returns undefined: a ticket for the next job */
export function heldJobOf(ref: Ref): HeldJob | undefined {
  if (!ref.includes(' ')) return undefined // most have none
  const [kind, id, token, task] = ref.split(' ')
  return kind === HELD && id !== undefined && token !== undefined ? { id, token, task } : undefined
}

/** @param unique no other ticket has it */
export function ticketRef({ task, isSifting }: Ticket, unique: string): Ref {
  if (task !== undefined) return `${LIMITED} ${unique} ${task}`
  return isSifting ? `${SIFTING} ${unique}` : unique
}

export function ticketOf(ref: Ref): Ticket {
  const [kind, , task] = ref.split(' ')
  return { task: kind === LIMITED ? task : undefined, isSifting: kind === SIFTING }
}

export function leaseOf({ id, token, task }: HeldJob): string {
  return task === undefined ? `${id} ${token}` : `${id} ${token} ${task}`
}

/** The job of a lease, and the token of its lock. */
export function jobOfLease(lease: string): HeldJob | undefined {
  const [id, token, task] = lease.split(' ')
  return id !== undefined && token !== undefined ? { id, token, task } : undefined
}

/** The token of a lock that goes from a worker, which had this ref, to its master. */
export function tokenFor(ref: Ref): string {
  return ref.replaceAll(' ', '/')
}
