import type { Asset, Page } from '../context.js'
import { bulkPage } from './bulk.js'
import { overviewPage } from './overview.js'

const VIEWER = { role: 'viewer' } as const

/** Every page that can be looked at. What changes something is not among them (acts.ts). */
export const PAGES: readonly Page[] = [
  { path: '/', right: VIEWER, render: overviewPage },
  { path: '/spools/:spool/bulk/:action', right: VIEWER, render: bulkPage },
]

export const ASSETS: readonly Asset[] = []
