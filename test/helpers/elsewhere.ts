import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { workspace } from './workspace.js'

/** Makes Node programs find no koffi, as after `npm install --omit=optional`, or on a platform that it has no binary for. */
export function withoutKoffi(base?: string): { readonly NODE_OPTIONS: string } {
  const file = join(workspace(base), 'without-koffi.cjs')
  writeFileSync(
    file,
    `const Module = require('node:module')
const resolve = Module._resolveFilename
Module._resolveFilename = function (name, ...more) {
  if (/^(koffi|@koromix)(\\/|$)/.test(name))
    throw Object.assign(new Error("Cannot find module '" + name + "'"), { code: 'MODULE_NOT_FOUND' })
  return resolve.call(this, name, ...more)
}`,
  )
  return { NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} --require ${file}` }
}
