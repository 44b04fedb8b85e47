import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)

/**
 * A package, or a part of Node, that few runs need, loaded by the first that does: an `import` at the top would cost every start, and one
 * within a function a promise, and the loader of ES modules.
 */
export function onDemand<T>(name: string): () => T {
  return () => require(name)
}
