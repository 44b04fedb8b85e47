import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../../helpers/workspace.js'

type EngineName = 'directory' | 'memory' | 'redis'

/** In what the engines differ, and why: `npm run docs` writes it to docs/redis.md. */
export interface Difference extends Readonly<Record<EngineName, string>> {
  readonly what: string
  readonly why: string
  /** How the row of docs/tasks-compared.md that it touches begins, and how Redis has that feature all the same. */
  readonly spinach?: string
  readonly kept?: string
}

export const DIFFERENCES = JSON.parse(
  readFileSync(join(ROOT, 'docs/redis-differences.json'), 'utf8'),
) as readonly Difference[]
