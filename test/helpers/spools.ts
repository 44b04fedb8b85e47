import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DeadLetters } from '#src/engines/spool/dead-letters.js'
import { spoold } from './cli.js'

/** Returns the rows of `spoold ls --json`, by the name of the task. */
export async function listed(spool: string, ...filters: string[]) {
  const { stdout } = await spoold(['ls', '--json', ...filters, spool])
  const rows = stdout.split('\n').filter(Boolean)
  return new Map(rows.map(row => JSON.parse(row)).map(row => [row.name, row]))
}

export async function stateOf(spool: string, name: string): Promise<string | undefined> {
  return (await listed(spool)).get(name)?.state
}

export function recordOf(spool: string, name: string) {
  try {
    return JSON.parse(readFileSync(join(spool, '.spoold/records', `${name}.json`), 'utf8'))
  } catch {
    return undefined
  }
}

/** Returns the packet's fourth byte, which is the state byte. */
export const byteOf = (path: string) => readFileSync(path)[3]

export const secondsOf = (path: string) => Math.floor(statSync(path).mtimeMs / 1000)

/** Yields the dead letters of a spool, each with its `.json` if there is one. */
export async function* lettersIn(spool: string) {
  const letters = new DeadLetters(spool)
  for await (const name of letters.names()) yield { name, letter: letters.read(name) }
}
