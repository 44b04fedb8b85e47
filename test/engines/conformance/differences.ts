import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../../helpers/workspace.js'

type EngineName = 'directory' | 'memory' | 'redis'

/** What the engines have in different ways, and why: `npm run docs` writes it to docs/redis.md. */
export interface Difference extends Readonly<Record<EngineName, string>> {
  readonly what: string
  readonly why: string
  /** The tests that only run over the engines that have what the directory has. */
  readonly skips?: string
  /** The row of docs/tasks-compared.md that it touches begins so, and how Redis has that feature all the same. */
  readonly spinach?: string
  readonly kept?: string
}

export const DIFFERENCES = JSON.parse(
  readFileSync(join(ROOT, 'docs/redis-differences.json'), 'utf8'),
) as readonly Difference[]

/** For the `skip` option of a test: false if the engine has this. */
export function skipWithout(engine: string, what: 'remembersRuns'): string | false {
  const row = DIFFERENCES.find(({ skips }) => skips === what)
  assert.ok(row !== undefined, what)
  const words = row[engine as EngineName]
  return words === row.directory || words === 'the same' ? false : `${row.what}: ${words}`
}
