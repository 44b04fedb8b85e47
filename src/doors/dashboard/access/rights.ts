import { ACTIONS, type ActionName } from '../../../admin/operate/actions.js'
import { isAtLeast, type Role } from '../../../base/task/roles.js'
import type { Visitor } from './visitor.js'

/** The role, and maybe the right to payloads, that a page or an action needs. */
export interface Right {
  readonly role: Role
  readonly payload?: true
}

export function hasRight({ role, mayReadPayload }: Visitor, right: Right): boolean {
  return isAtLeast(role, right.role) && (right.payload !== true || mayReadPayload)
}

/** @param allowsNewWork `spooler-dashboard-enqueue` */
export function mayDo(visitor: Visitor, name: ActionName, allowsNewWork: boolean): boolean {
  const { role, isNewWork } = ACTIONS[name]
  if (isNewWork && !allowsNewWork) return false
  return hasRight(visitor, name === 'edit' ? { role, payload: true } : { role })
}
