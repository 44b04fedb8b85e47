/** Who may do what: each role may do all that those before it may. The payload of tasks is a right of its own. */
export const ROLES = [
  'viewer', // reads
  'operator', // also does what can be undone
  'admin', // also does what cannot be undone, and what brings new tasks
] as const
export type Role = (typeof ROLES)[number]

export function isAtLeast(role: Role, least: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(least)
}
