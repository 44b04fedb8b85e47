import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

/** The functions of node:fs by which our code changes a spool, or moves an access time. */
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

/** The functions of node:fs that our code calls on a spool, and that matter to it when they fail. */
export const FS_CALLS = [...CHANGING_CALLS, 'fstatSync', 'lstatSync', 'readlinkSync', 'readFileSync'] as const

export type FsCall = (typeof FS_CALLS)[number]
type AnyFunction = (...args: unknown[]) => unknown

/**
 * From now on each of these calls goes through `around`, in all modules of this process: what node:fs exports are live
 * bindings. @returns what ends it
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

/** The error that the kernel would make of it. */
export function errnoError(code: string, call: string, path: unknown): Error {
  return Object.assign(new Error(`${code}: injected, ${call} '${path}'`), { code, syscall: call })
}
