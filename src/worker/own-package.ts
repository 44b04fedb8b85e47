import * as nodeModule from 'node:module'
import { pathToFileURL } from 'node:url'
import { entryFile } from '../base/package-root.js'
import { moduleFiles } from '../system/module-files.js'

/**
 * A handler may import `spoold` wherever it lies and however spoold was installed: where none can be found from its
 * place, it has the daemon's own copy.
 */
const OURS = /^spoold(\/|$)/

/** Node 22.15 and later. */
interface SyncHooks {
  registerHooks?(hooks: { resolve: typeof resolveOurs }): void
}
/** What CommonJS asks for a path; older than, and not covered by, the hooks of ES modules. */
interface CommonJs {
  _resolveFilename(request: string, parent: unknown, ...rest: unknown[]): string
}

let isOffered = false

/** To be called before the file is loaded. It costs next to nothing where it is not needed. */
export function offerOwnPackage(file: string): void {
  if (isOffered || isFoundFrom(file)) return
  const { registerHooks } = nodeModule as SyncHooks
  if (registerHooks !== undefined) registerHooks({ resolve: resolveOurs })
  // a thread for the hooks and 30 ms: not for a handler that has no use for it
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

/** The package finds itself by its own name from any of its files; `require` listens to nothing but a whole answer. */
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
