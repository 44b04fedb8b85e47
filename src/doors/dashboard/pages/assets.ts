import { ASSET_NAMES, assetOf } from '../assets.js'
import type { Asset } from '../context.js'

/** Scripts and styles: their URLs have a version, so that browsers may keep them. */
export const ASSET_PAGES: readonly Asset[] = ASSET_NAMES.map(name => ({
  path: `/assets/${name}`,
  asset() {
    const { type, body } = assetOf(name)
    return { type, body, isLasting: true }
  },
}))
