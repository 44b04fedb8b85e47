import { isUtf8 } from 'node:buffer'
import { readFileSync, statSync } from 'node:fs'
import { describe, quietly, SpooldError } from '../../base/errors.js'

/** Node's replacement for bytes that are not UTF-8. It may also be a genuine character of the argument. */
const REPLACEMENT = '\ufffd'

/**
 * Refuses arguments that are not UTF-8: Node has replaced bytes in them, so they would name another file or store
 * another value.
 *
 * @throws SpooldError USAGE
 */
export function refuseChangedBytes(argv: readonly string[]): void {
  const suspects = argv.filter(arg => arg.includes(REPLACEMENT))
  if (suspects.length === 0) return
  const raw = rawArguments()
  const changed = suspects.find(arg => raw === undefined || raw.has(arg))
  if (changed === undefined) return
  const isPair = argv[0] === 'enqueue' && !changed.startsWith('-')
  const [, key] = (isPair && /^([^=\ufffd]+)=/.exec(changed)) || []
  const hint = key === undefined ? '' : `; put the bytes into a file and write ${key}=@FILE`
  throw new SpooldError(
    'USAGE',
    `the argument ${describe(changed)} is not UTF-8, and would be changed${hint}`,
  )
}

/**
 * Refuses a working directory whose name is not UTF-8: a relative path would lead below another directory, which would be created.
 *
 * @throws SpooldError USAGE
 */
export function refuseChangedDirectory(): void {
  const directory = quietly(() => process.cwd(), '') // the directory may have been removed
  if (!directory.includes(REPLACEMENT)) return
  const [here, named] = ['.', directory].map(path => quietly(() => statSync(path)))
  if (here?.ino === named?.ino && here?.dev === named?.dev) return
  throw new SpooldError(
    'USAGE',
    `the name of the working directory, ${describe(directory)}, is not UTF-8, and would be changed; start in another one`,
  )
}

/** The arguments that are not UTF-8, as Node has decoded them; undefined if /proc cannot tell. */
function rawArguments(): Set<string> | undefined {
  try {
    const bytes = readFileSync('/proc/self/cmdline').toString('latin1').split('\0')
    return new Set(
      bytes
        .map(arg => Buffer.from(arg, 'latin1'))
        .filter(arg => !isUtf8(arg))
        .map(arg => arg.toString()),
    )
  } catch {
    return undefined
  }
}
