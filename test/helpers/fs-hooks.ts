import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

/** The functions of node:fs with which our code changes a spool or an access time. */
export const CHANGING_CALLS = [
  'openSync',
  'readSync',
  'writeSync',
  'futimesSync',
  'utimesSync',
  'fdatasyncSync',
  'fsyncSync',
  'renameSync',
  'linkSync',
  'symlinkSync',
  'unlinkSync',
  'mkdirSync',
  'rmSync',
  'writeFileSync',
] as const

/** The functions of node:fs that our code calls on a spool, and whose failure affects it. */
export const FS_CALLS = [...CHANGING_CALLS, 'fstatSync', 'lstatSync', 'readlinkSync', 'readFileSync'] as const

export type FsCall = (typeof FS_CALLS)[number]
type AnyFunction = (...args: unknown[]) => unknown

/**
 * Routes these calls through `around` from now on, in all modules of this process: the exports of node:fs are live
 * bindings.
 *
 * @returns a function that ends it
 */
export function hookFs(
  calls: readonly FsCall[],
  around: (name: FsCall, args: readonly unknown[], proceed: () => unknown) => unknown,
): () => void {
  const table = fs as unknown as Record<FsCall, AnyFunction>
  const originals = calls.map(name => [name, table[name]] as const)
  for (const [name, original] of originals)
    table[name] = (...args) => around(name, args, () => original(...args))
  syncBuiltinESMExports()
  return () => {
    for (const [name, original] of originals) table[name] = original
    syncBuiltinESMExports()
  }
}

/** The error of a failed call, as node:fs would throw it. */
export function errnoError(code: string, call: string, path: unknown): Error {
  return Object.assign(new Error(`${code}: injected, ${call} '${path}'`), { code, syscall: call })
}
