import { createRequire } from 'node:module'
import { messageOf } from './errors.js'

const require = createRequire(import.meta.url)

/**
 * Loads a package or a Node module on first use. A static `import` would slow down every start; a dynamic one needs a
 * promise and the ES module loader.
 */
export function onDemand<T>(name: string): () => T {
  let loaded: T | undefined // looking it up again costs microseconds
  return () => {
    if (loaded !== undefined) return loaded
    try {
      loaded = require(name) as T
      return loaded
    } catch (error) {
      throw new Error(messageOf(error).split('\n')[0], { cause: error }) // the other lines are Node's require stack
    }
  }
}

/** Loaded on demand: it costs a few milliseconds and half a megabyte, and most processes never hash anything. */
export const crypto = onDemand<typeof import('node:crypto')>('node:crypto')
