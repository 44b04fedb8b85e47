import { onDemand } from './on-demand.js'

/** Loading it takes a few milliseconds and half a megabyte, and most processes never hash anything. */
export const crypto = onDemand<typeof import('node:crypto')>('node:crypto')
