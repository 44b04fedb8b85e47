import { onDemand } from './on-demand.js'

/** Node takes some milliseconds and half a megabyte to load it, and most processes never hash anything. */
export const crypto = onDemand<typeof import('node:crypto')>('node:crypto')
