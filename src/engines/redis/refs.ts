import type { Ref } from '../../base/task/ref.js'

/** A job whose lock a master has, until a worker that may run it takes the lock over. */
export interface HeldJob {
  readonly id: string
  readonly token: string
  /** The name of the task whose queue the job is in; undefined: the spool's own. No task has a space in its name. */
  readonly task?: string | undefined
}

/** A right to pull one job, whichever that is. */
interface Ticket {
  /** The name of the task whose queue the ticket is for; undefined: the spool's own. */
  readonly task: string | undefined
  /** True if tasks that have queues of their own may be in front. They are moved there first. */
  readonly isSifting: boolean
}

const HELD = 'held'
const LIMITED = 'limited'
const SIFTING = 'sifting'

/** Returns a ref that names a job that its master holds. Every other ref is a ticket for the next job of a queue. */
export function heldRef({ id, token, task }: HeldJob): Ref {
  return `${HELD} ${id} ${token}${task === undefined ? '' : ` ${task}`}`
}

/** @returns undefined: the ref is a ticket for the next job */
export function heldJobOf(ref: Ref): HeldJob | undefined {
  if (!ref.includes(' ')) return undefined // most refs have none
  const [kind, id, token, task] = ref.split(' ')
  return kind === HELD && id !== undefined && token !== undefined ? { id, token, task } : undefined
}

/** @param unique a text that no other ticket has */
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

/** Returns the job of a lease, with the token of its lock. */
export function jobOfLease(lease: string): HeldJob | undefined {
  const [id, token, task] = lease.split(' ')
  return id !== undefined && token !== undefined ? { id, token, task } : undefined
}

/** Returns the token of a lock that goes from the worker that had this ref to its master. */
export function tokenFor(ref: Ref): string {
  return ref.replaceAll(' ', '/')
}
