import childProcess, { ChildProcess, type SpawnOptions, type StdioOptions } from 'node:child_process'
import { syncBuiltinESMExports } from 'node:module'
import type { Readable } from 'node:stream'
import type { Stream } from '../../base/events/event-map.js'
import { OutputPipe, readOutput } from './output-pipe.js'
import type { Print } from './own-output.js'

const NAMES = { 1: 'stdout', 2: 'stderr' } as const
const OWN = Symbol('a process of spoold')
/** Spread this into the spawn options of spoold's own processes, so that they inherit our descriptors unchanged. */
export const OWN_CHILD: object = { [OWN]: true }

/** The descriptors of the child that were meant to be our standard output or error, and which of the two. */
type Taken = ReadonlyMap<number, Stream>

/**
 * Captures the output of processes that handlers start with inherited standard output or error, however they import
 * `child_process`, and prints it as the handler's own. All asynchronous functions end in `ChildProcess.prototype.spawn`.
 */
export function takeChildrensOutput(print: Print): void {
  const prototype = ChildProcess.prototype as unknown as { spawn(options: SpawnOptions): unknown }
  const { spawn } = prototype
  prototype.spawn = function (this: ChildProcess, options) {
    const [stdio, taken] = divert(options)
    if (taken.size === 0 || !Array.isArray(stdio)) return spawn.call(this, options)
    const pipes = new Map(Array.from(taken.keys(), fd => [fd, OutputPipe.open()]))
    try {
      return spawn.call(this, { ...options, stdio: stdio.map((entry, fd) => pipes.get(fd)?.writer ?? entry) })
    } finally {
      for (const [fd, name] of taken) {
        const pipe = pipes.get(fd)
        pipe?.spawned(this.pid)
        const stream = (pipe?.reader ?? this.stdio?.[fd]) as Readable | null | undefined
        // the remaining output comes first, because a handler that waits for the exit may end the task then
        this.prependListener(
          'exit',
          readOutput(stream, (text, taken) => print(name, text, taken)),
        )
      }
    }
  }
  Object.assign(childProcess, {
    spawnSync: sync(childProcess.spawnSync, print),
    execFileSync: sync(childProcess.execFileSync, print),
    execSync: sync(childProcess.execSync, print),
  })
  syncBuiltinESMExports()
}

function divert(options: SpawnOptions): [StdioOptions | undefined, Taken] {
  const { stdio } = options
  const taken = new Map<number, Stream>()
  if (stdio === undefined || stdio === null || OWN in options) return [stdio, taken]
  const list = typeof stdio === 'string' ? [stdio, stdio, stdio] : stdio
  const diverted = list.map((entry, fd) => {
    const ours = ourDescriptor(entry, fd)
    if (ours !== 1 && ours !== 2) return entry
    taken.set(fd, NAMES[ours])
    return 'pipe' as const
  })
  return [diverted, taken]
}

function ourDescriptor(entry: unknown, fd: number): unknown {
  if (entry === 'inherit') return fd
  return typeof entry === 'object' && entry !== null && 'fd' in entry ? entry.fd : entry
}

type SyncFunction = (...args: never[]) => unknown

/** Returns a synchronous function whose output is printed at its end, because a blocked process cannot read a pipe. */
function sync(original: SyncFunction, print: Print): SyncFunction {
  return (...args: unknown[]) => {
    const at = args.findIndex(
      (arg, i) => i > 0 && typeof arg === 'object' && arg !== null && !Array.isArray(arg),
    )
    const options = (args[at] ?? {}) as SpawnOptions
    const [stdio, taken] = divert(options)
    if (taken.size === 0) return Reflect.apply(original, childProcess, args)
    const replaced = args.with(at, { ...options, stdio, maxBuffer: Number.POSITIVE_INFINITY })
    try {
      return withoutCaptured(Reflect.apply(original, childProcess, replaced), taken, print)
    } catch (error) {
      throw withoutCaptured(error, taken, print)
    }
  }
}

/** Prints the captured output of a result, or of an error that holds one, and removes it there. */
function withoutCaptured(result: unknown, taken: Taken, print: Print): unknown {
  const say = (name: Stream, text: unknown) => {
    if (text !== null && text !== undefined) print(name, String(text), () => {})
  }
  if (typeof result !== 'object' || result === null || !('output' in result)) {
    const name = taken.get(1)
    if (name === undefined) return result
    say(name, result)
    return null
  }
  const output = Array.isArray(result.output) ? result.output : []
  for (const [fd, name] of taken) {
    say(name, output[fd])
    output[fd] = null
    if (fd === 1 || fd === 2) Object.assign(result, { [NAMES[fd]]: null })
  }
  return result
}
