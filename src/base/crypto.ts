import { onDemand } from './on-demand.js'

/** Loaded on demand: it costs a few milliseconds and half a megabyte, and most processes never hash anything. */
export const crypto = onDemand<typeof import('node:crypto')>('node:crypto')
