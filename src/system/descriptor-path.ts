/** Leads to whatever a descriptor refers to, for what takes nothing but a path: it resolves to that file, not to its name. */
export function descriptorPath(fd: number): string {
  return `/proc/self/fd/${fd}`
}
