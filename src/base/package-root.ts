import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Where package.json lies: right above the bundle, further above the modules that tests load one by one. */
export const PACKAGE_ROOT = findRoot(import.meta.dirname)

/** Where spoold's own code lies: the bundle, those modules, and what source maps make of both. */
export const CODE_ROOTS = ['dist', 'build/src', 'src'].map(path => join(PACKAGE_ROOT, path))

/** The file of the bundle that another process, or a thread, begins with. */
export function entryFile(
  name: 'worker' | 'rehearse' | 'program-watcher' | 'own-package-hook' | 'batch-thread',
): string {
  return join(PACKAGE_ROOT, 'dist', `${name}.cjs`)
}

function findRoot(directory: string): string {
  const parent = dirname(directory)
  return parent === directory || existsSync(join(directory, 'package.json')) ? directory : findRoot(parent)
}
