import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { constants } from 'node:os'
import { type Name, pathBelow, type SystemCalls } from '#src/system/calls.js'
import { systemCalls } from '#src/system/libc.js'

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

export type FsCall = (typeof FS_CALLS)[number] | 'readdirSync'
type AnyFunction = (...args: unknown[]) => unknown

/** For each of our system calls, the same function of node:fs and its arguments. A name below a directory becomes a path. */
const SAME: { readonly [Call in keyof SystemCalls]?: readonly [FsCall, (...args: never[]) => unknown[]] } = {
  openat: ['openSync', below],
  tryOpenat: ['openSync', below],
  pread: ['readSync', (fd, into, bytes, position) => [fd, into, 0, bytes, position]],
  pwrite: ['writeSync', (fd, from, bytes, position) => [fd, from, 0, bytes, position]],
  status: ['fstatSync', fd => [fd]],
  statusAt: ['lstatSync', below],
  unlinkat: ['unlinkSync', below],
  tryUnlinkat: ['unlinkSync', below],
  mkdirat: ['mkdirSync', below],
  linkat: ['linkSync', fromTo],
  renameat: ['renameSync', fromTo],
  renameFreely: ['renameSync', fromTo],
  getdents: ['readdirSync', fd => [fs.readlinkSync(`/proc/self/fd/${fd}`)]],
}

function below(directory: number, name: Name, ...more: unknown[]): unknown[] {
  return [pathBelow(directory, name), ...more]
}

function fromTo(directory: number, name: Name, toDirectory: number, to: Name): unknown[] {
  return [pathBelow(directory, name), pathBelow(toDirectory, to)]
}

/** Returns the negative errno that a call named `try…` returns for an error. */
function numberOf(error: unknown): number {
  const { code = '' } = error as { code?: string }
  const number = constants.errno[code as keyof typeof constants.errno]
  if (number === undefined) throw error
  return -number
}

/** Does for our own system calls what `hookFs` does for node:fs. */
function hookCalls(calls: readonly FsCall[], around: Around): () => void {
  const table = systemCalls() as unknown as Record<string, AnyFunction>
  if (!systemCalls().isLibc) return () => {} // without libc, our calls use node:fs, which is hooked
  const originals = Object.entries(SAME).flatMap(([name, [call, inItsWords]]) => {
    const original = table[name]
    if (original === undefined || !calls.includes(call)) return []
    table[name] = (...args) => {
      try {
        return around(call, (inItsWords as AnyFunction)(...args) as unknown[], () => {
          const result = original(...args)
          if (name.startsWith('try') && Number(result) < 0) throw new Returned(Number(result))
          return result
        })
      } catch (error) {
        if (error instanceof Returned) return error.number
        if (name.startsWith('try')) return numberOf(error)
        throw error
      }
    }
    return [[name, original] as const]
  })
  return () => {
    for (const [name, original] of originals) table[name] = original
  }
}

/** Carries the negative result of a failed call named `try…` through `around`. */
class Returned extends Error {
  readonly number: number

  constructor(number: number) {
    super('the call failed')
    this.number = number
  }
}

type Around = (name: FsCall, args: readonly unknown[], proceed: () => unknown) => unknown

/**
 * Routes these calls through `around` from now on, in all modules of this process: the exports of node:fs are live
 * bindings, and our own system calls are the functions of an object.
 *
 * @returns a function that removes the hooks
 */
export function hookFs(calls: readonly FsCall[], around: Around): () => void {
  const unhookCalls = hookCalls(calls, around)
  const table = fs as unknown as Record<FsCall, AnyFunction>
  const originals = calls.map(name => [name, table[name]] as const)
  for (const [name, original] of originals)
    table[name] = (...args) => around(name, args, () => original(...args))
  syncBuiltinESMExports()
  return () => {
    unhookCalls()
    for (const [name, original] of originals) table[name] = original
    syncBuiltinESMExports()
  }
}

/** Returns the error that node:fs would throw for a failed call. */
export function errnoError(code: string, call: string, path: unknown): Error {
  return Object.assign(new Error(`${code}: injected, ${call} '${path}'`), { code, syscall: call })
}
