/**
 * Returns a path to whatever a descriptor refers to, for functions that take nothing but a path. It resolves to that file,
 * not to the file's name.
 */
export function descriptorPath(fd: number): string {
  return `/proc/self/fd/${fd}`
}
