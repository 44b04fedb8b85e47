import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The directory of package.json: the parent of the bundle, or an ancestor of the separate modules that tests load. */
export const PACKAGE_ROOT = findRoot(import.meta.dirname)

/** The directories of spoold's own code: the bundle, the separate modules, and the sources that source maps name. */
export const CODE_ROOTS = ['dist', 'build/src', 'src'].map(path => join(PACKAGE_ROOT, path))

/** The host programs that interpreters run: one directory per language, which the build copies next to the bundle. */
export const HOSTS_ROOT = join(PACKAGE_ROOT, 'dist/hosts')

/** The wheel of the Python library, for pip. The build makes it. */
export const wheelOf = (version: string) => join(HOSTS_ROOT, `python/spoold-${version}-py3-none-any.whl`)

/** The scripts and styles of the dashboard's pages, which the build copies next to the bundle. */
export const DASHBOARD_ROOT = join(PACKAGE_ROOT, 'dist/dashboard')

/** The bundle's entry file for another process or thread. */
export function entryFile(
  name:
    | 'worker'
    | 'worker-thread'
    | 'aside'
    | 'exporter'
    | 'dashboard'
    | 'rehearse'
    | 'as-owner'
    | 'program-watcher'
    | 'own-package-hook',
): string {
  return join(PACKAGE_ROOT, 'dist', `${name}.cjs`)
}

function findRoot(directory: string): string {
  const parent = dirname(directory)
  return parent === directory || existsSync(join(directory, 'package.json')) ? directory : findRoot(parent)
}
