import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { DASHBOARD_ROOT, PACKAGE_ROOT } from '../../base/package-root.js'

interface Asset {
  readonly type: string
  /** A hash of the content, so that an updated file has another URL. */
  readonly version: string
  readonly body: Buffer
}

const SCRIPT = 'text/javascript; charset=utf-8'
const STYLE = 'text/css; charset=utf-8'
const PICTURE = 'image/svg+xml'

const ofPackage = (path: string) => () => createRequire(join(PACKAGE_ROOT, 'package.json')).resolve(path)
const own = (name: string) => () => join(DASHBOARD_ROOT, name)

/** The files that pages load, by their names in URLs. No other file is served. */
const FILES = {
  'dashboard.css': [STYLE, own('dashboard.css')],
  'dashboard.js': [SCRIPT, own('dashboard.js')],
  'icon.svg': [PICTURE, own('icon.svg')],
  'htmx.js': [SCRIPT, ofPackage('htmx.org/dist/htmx.min.js')],
  'uplot.js': [SCRIPT, ofPackage('uplot/dist/uPlot.iife.min.js')],
  'uplot.css': [STYLE, ofPackage('uplot/dist/uPlot.min.css')],
} as const satisfies Readonly<Record<string, readonly [type: string, path: () => string]>>

type AssetName = keyof typeof FILES

export const ASSET_NAMES = Object.keys(FILES) as AssetName[]

const read = new Map<AssetName, Asset>()

export function assetOf(name: AssetName): Asset {
  const known = read.get(name)
  if (known !== undefined) return known
  const [type, path] = FILES[name]
  const body = readFileSync(path())
  const version = createHash('sha256').update(body).digest('base64url').slice(0, 10)
  const asset = { type, version, body }
  read.set(name, asset)
  return asset
}

/** Returns the URL of a file. It has the file's version, because browsers keep what they have loaded from it. */
export function assetHref(name: AssetName): string {
  return `/assets/${name}?v=${assetOf(name).version}`
}
