import { realpathSync } from 'node:fs'
import * as nodeModule from 'node:module'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, SpooldError, toError } from '../../base/errors.js'
import { entryFile } from '../../base/package-root.js'
import { stackOf } from '../../base/task/failure-text.js'
import type { Handler } from '../../base/task/task.js'
import { DELIVERIES, type Delivery, isDelivery } from '../../base/task/terms.js'
import { moduleFiles, syntaxErrorIn, unsupportedEnding } from '../../system/module-files.js'
import { hasRegistry, REGISTRY, type Registry } from '../tasks/registry.js'

export interface LoadedHandler {
  readonly handler: Handler | undefined
  /** The registries of the `Tasks` that the module exports. */
  readonly registries: readonly Registry[]
  /** The `delivery` that the module exports, or that is a property of the function. */
  readonly delivery: Delivery | undefined
}

/**
 * Loads the handler of a file, which is its default export or the one named `spooler`, and all `Tasks` that the file exports.
 * CommonJS may assign either to `module.exports`.
 *
 * @throws SpooldError HANDLER_UNLOADABLE with the file, what was expected, and the stack of the error
 */
export async function loadHandler(file: string): Promise<LoadedHandler> {
  const path = resolve(file)
  const exports = await importFile(path)
  const handler = findHandler(exports)
  const registries = findRegistries(exports)
  if (handler !== undefined) return { handler, registries, delivery: findDelivery(path, exports, handler) }
  if (registries.length > 0) return { handler, registries, delivery: undefined }
  const shown = ([name, value]: [string, unknown]) =>
    name === 'default' ? `default (${describe(value)})` : name
  const names = Object.entries(exports).map(shown).join(', ') || 'nothing'
  throw new SpooldError(
    'HANDLER_UNLOADABLE',
    `${path} exports no handler: expected a default function or one named "spooler", or Tasks, got ${names}`,
  )
}

async function importFile(path: string): Promise<object> {
  try {
    const file = realpathSync(path)
    offerOwnPackage(file)
    return await import(pathToFileURL(file).href)
  } catch (thrown) {
    const error = toError(thrown)
    throw new SpooldError('HANDLER_UNLOADABLE', `${path} could not be loaded: ${explain(error, path)}`, {
      cause: error,
    })
  }
}

/**
 * Returns the stack without Node's own frames, which are of no help. A syntax error in an ES module has no other frames, so its
 * place is found separately.
 */
function explain(error: Error, path: string): string {
  if ('code' in error && error.code === 'ERR_UNKNOWN_FILE_EXTENSION') {
    const unsupported = unsupportedEnding(path)
    if (unsupported !== undefined) return unsupported
  }
  const lines = stackOf(error).split('\n')
  const text = lines.filter(line => !/^ +at (.*\()?node:/.test(line)).join('\n')
  if (error.name !== 'SyntaxError' || /:\d+:\d+/.test(text)) return text
  return syntaxErrorIn(realpathSync(path)) ?? text
}

function findHandler(exports: object): Handler | undefined {
  const candidates = [exports, 'default' in exports ? exports.default : undefined]
  for (const candidate of candidates) {
    if (isHandler(candidate)) return candidate
    if (typeof candidate !== 'object' || candidate === null) continue
    if ('default' in candidate && isHandler(candidate.default)) return candidate.default
    if ('spooler' in candidate && isHandler(candidate.spooler)) return candidate.spooler
  }
  return undefined
}

/** Returns the registries that a module exports, each once. */
function findRegistries(exports: object): Registry[] {
  const inDefault = 'default' in exports ? exports.default : undefined
  const isHolder = typeof inDefault === 'object' && inDefault !== null
  const values: unknown[] = [
    exports,
    ...Object.values(exports),
    ...(isHolder ? Object.values(inDefault) : []),
  ]
  return [...new Set(values.filter(hasRegistry).map(value => value[REGISTRY]))]
}

function findDelivery(path: string, exports: object, handler: Handler): Delivery | undefined {
  const inDefault = 'default' in exports ? exports.default : undefined
  for (const candidate of [handler, exports, inDefault]) {
    const isHolder = typeof candidate === 'function' || (typeof candidate === 'object' && candidate !== null)
    if (!isHolder || !('delivery' in candidate)) continue
    const { delivery } = candidate
    if (isDelivery(delivery)) return delivery
    throw new SpooldError(
      'HANDLER_UNLOADABLE',
      `${path}: delivery must be one of ${DELIVERIES.join(', ')}, got ${describe(delivery)}`,
    )
  }
  return undefined
}

/** True for a function that can be a handler. A function with `scheduleAt` is a named task, which takes no dictionary. */
function isHandler(value: unknown): value is Handler {
  return typeof value === 'function' && !('scheduleAt' in value)
}

/**
 * The imports of this package. A handler may import `spoold` wherever its file is and however spoold was installed: if the
 * package cannot be resolved from there, the handler gets the daemon's own copy.
 */
const OURS = /^spoold(\/|$)/

/** The synchronous hooks of Node 22.15 and later. */
interface SyncHooks {
  registerHooks?(hooks: { resolve: typeof resolveOurs }): void
}
/** The resolution of CommonJS, which is older than the hooks of ES modules and is not covered by them. */
interface CommonJs {
  _resolveFilename(request: string, parent: unknown, ...rest: unknown[]): string
}

let isOffered = false

/** Lets a handler import this package. Call it before the file is loaded. It costs next to nothing if it is not needed. */
function offerOwnPackage(file: string): void {
  if (isOffered || isFoundFrom(file)) return
  const { registerHooks } = nodeModule as SyncHooks
  if (registerHooks !== undefined) registerHooks({ resolve: resolveOurs })
  // only for a handler that needs it, because it costs a thread for the hooks and 30 ms
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

/** Resolves `spoold` from this file, because a package can import itself by name. `require` accepts only a complete result. */
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
