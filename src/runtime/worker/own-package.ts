import * as nodeModule from 'node:module'
import { pathToFileURL } from 'node:url'
import { entryFile } from '../../base/package-root.js'
import { moduleFiles } from '../../system/module-files.js'

/**
 * A handler may import `spoold` wherever its file is and however spoold was installed: if the package cannot be
 * resolved from there, the handler gets the daemon's own copy.
 */
const OURS = /^spoold(\/|$)/

/** In Node 22.15 and later. */
interface SyncHooks {
  registerHooks?(hooks: { resolve: typeof resolveOurs }): void
}
/** Resolves a path for CommonJS. It is older than the hooks of ES modules, which do not cover it. */
interface CommonJs {
  _resolveFilename(request: string, parent: unknown, ...rest: unknown[]): string
}

let isOffered = false

/** Call it before the file is loaded. It costs next to nothing if it is not needed. */
export function offerOwnPackage(file: string): void {
  if (isOffered || isFoundFrom(file)) return
  const { registerHooks } = nodeModule as SyncHooks
  if (registerHooks !== undefined) registerHooks({ resolve: resolveOurs })
  // costs a thread for the hooks and 30 ms, so only for a handler that needs it
  else if (moduleFiles(file).some(({ text }) => text.includes('spoold'))) offerOnOldNode()
  else return
  isOffered = true
}

function isFoundFrom(file: string): boolean {
  try {
    nodeModule.createRequire(file).resolve('spoold/package.json')
    return true
  } catch {
    return false
  }
}

/** Resolves `spoold` from this file: a package can import itself by name. `require` only accepts a complete result. */
function resolveOurs(
  specifier: string,
  context: { readonly parentURL?: string },
  next: (specifier: string, context: object) => unknown,
): unknown {
  if (!OURS.test(specifier) || context.parentURL === import.meta.url) return next(specifier, context)
  const file = nodeModule.createRequire(import.meta.url).resolve(specifier)
  return { url: pathToFileURL(file).href, shortCircuit: true }
}

function offerOnOldNode(): void {
  nodeModule.register(pathToFileURL(entryFile('own-package-hook')))
  const commonJs = nodeModule.Module as unknown as CommonJs
  const original = commonJs._resolveFilename.bind(nodeModule.Module)
  const ours = { filename: import.meta.filename, paths: [] }
  commonJs._resolveFilename = (request, parent, ...rest) =>
    original(request, OURS.test(request) ? ours : parent, ...rest)
}
