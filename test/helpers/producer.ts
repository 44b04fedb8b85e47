import { join } from 'node:path'
import { TestProcess } from './process.js'
import { ROOT } from './workspace.js'

/** A program that enqueues tasks with the library, synced, one after another, and journals each one once it is acknowledged. */
const SCRIPT = `
  import { spool } from 'spoold'
  import { appendFileSync, existsSync } from 'node:fs'
  const [spooler, acknowledged, name, pauseMs] = process.argv.slice(1)
  for (let i = 0; !existsSync(acknowledged + '-enough'); i++) {
    const n = name + '.' + i
    const more = { 0: { spooler_delivery: 'at-most-once' }, 1: { ms: 30 }, 2: { ms: 3 }, 3: { ms: 30, spooler_delivery: 'at-most-once' } }[i % 8]
    await spool({ n, ...more }, { spooler })
    appendFileSync(acknowledged, n + '\\n')
    await new Promise(resolve => setTimeout(resolve, Number(pauseMs)))
  }`

/** True for the tasks of a producer that must not run twice: every fourth. */
export const isOnce = (n: string): boolean =>
  (Number(n.split('.')[1]) % 8) % 3 === 0 && Number(n.split('.')[1]) % 8 < 4

/** Returns the path of the producers' file of acknowledged tasks. Producers end when a file `acknowledged-enough` exists. */
export const acknowledgedFile = (directory: string): string => join(directory, 'acknowledged')

export function startProducer(spool: string, directory: string, name: string, pauseMs: number): TestProcess {
  const args = [
    '--input-type=module',
    '-e',
    SCRIPT,
    spool,
    acknowledgedFile(directory),
    name,
    String(pauseMs),
  ]
  return new TestProcess(process.execPath, args, { cwd: ROOT })
}
