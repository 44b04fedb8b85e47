import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The directory of package.json: the bundle's parent, or an ancestor of the single modules that tests load. */
export const PACKAGE_ROOT = findRoot(import.meta.dirname)

/** The directories of spoold's own code: the bundle, the single modules, and the sources that source maps name. */
export const CODE_ROOTS = ['dist', 'build/src', 'src'].map(path => join(PACKAGE_ROOT, path))

/** What interpreters run: a directory per language, which the build copies beside the bundle. */
export const HOSTS_ROOT = join(PACKAGE_ROOT, 'dist/hosts')

/** The bundle's entry file for another process or thread. */
export function entryFile(
  name: 'worker' | 'rehearse' | 'program-watcher' | 'own-package-hook' | 'batch-thread',
): string {
  return join(PACKAGE_ROOT, 'dist', `${name}.cjs`)
}

function findRoot(directory: string): string {
  const parent = dirname(directory)
  return parent === directory || existsSync(join(directory, 'package.json')) ? directory : findRoot(parent)
}
