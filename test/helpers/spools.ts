import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DeadLetters } from '#src/engines/spool/dead-letters.js'
import { spoold } from './cli.js'

/** The output of `spoold ls --json`, by name. */
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

/** The packet's fourth byte. */
export const byteOf = (path: string) => readFileSync(path)[3]

export const secondsOf = (path: string) => Math.floor(statSync(path).mtimeMs / 1000)

/** The dead letters of a spool, each with its reason if there is one. */
export async function* lettersIn(spool: string) {
  const letters = new DeadLetters(spool)
  for await (const name of letters.names()) yield { name, letter: letters.read(name) }
}
