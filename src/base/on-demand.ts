import { createRequire } from 'node:module'
import { messageOf } from './errors.js'

const require = createRequire(import.meta.url)

/**
 * A package, or a part of Node, that few runs need, loaded by the first that does: an `import` at the top would cost every start, and one
 * within a function a promise, and the loader of ES modules.
 */
export function onDemand<T>(name: string): () => T {
  return () => {
    try {
      return require(name)
    } catch (error) {
      throw new Error(messageOf(error).split('\n')[0], { cause: error }) // who asked for it stands in further lines
    }
  }
}
