import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { it } from 'node:test'
import { besidesIdle, spoold } from './cli.js'
import { leftIn, packet } from './files.js'
import { LEAVER, piped, SLEEPER } from './pipe.js'
import { isLong } from './requires.js'
import { spoolDirectory, workspace } from './workspace.js'

/** The number of tasks in a spool. With names of their length, their rows are far more than a pipe holds. */
export const ROWS = isLong ? 100_000 : 700
/** The number of rows where a row is short and cheap. */
export const MANY = isLong ? 100_000 : 2000

export function filled(below = ''): string {
  const spool = spoolDirectory()
  mkdirSync(join(spool, '.spoold'), { mode: 0o700 })
  mkdirSync(join(spool, below), { recursive: true, mode: 0o700 })
  for (let i = 0; i < ROWS; i++)
    writeFileSync(join(spool, below, `task-${i}-${'x'.repeat(200)}`), packet({ n: String(i) }), {
      mode: 0o600,
    })
  return spool
}

export const dead = () => filled('.spoold/dead')

export async function held(): Promise<string> {
  const spool = filled()
  await spoold(['hold', '--all', '--quiet', spool])
  return spool
}

/** Writes a configuration with a warning for each of MANY lines. @returns its path */
export function wordy(): string {
  const ini = join(workspace(), 'app.ini')
  const wrong = Array.from({ length: MANY }, (_, i) => `no-such-option-${i}-${'x'.repeat(60)} = 1`)
  writeFileSync(ini, `[uwsgi]\nspooler = /nonexistent/spool\n${wrong.join('\n')}\n`)
  return ini
}

export const jsonRows = () => Array.from({ length: MANY }, (_, i) => `{"n":${i}}\n`).join('')
const lines = (text: string) => text.split('\n').length - 1

type Setup = () => string | Promise<string>
export interface Case {
  readonly name: string
  /** Makes the spool or the file that the command is about, and returns its path. */
  readonly on: Setup
  args(path: string): string[]
  readonly input?: () => string
  /** The number of rows. Absent: ROWS. */
  readonly rows?: number
  /** Lines besides one for each row. */
  readonly extra?: number
  /** The exit code of the command. Absent: 0. */
  readonly code?: number
  /** How many tasks are in the spool after the command. */
  readonly left?: number
}

async function run({ on, args, input }: Case, reader: string) {
  const path = await on()
  return { path, ...(await piped(args(path), reader, input?.())) }
}

/** Tests that a reader that comes late gets everything that a command prints. */
export function getsAll(each: Case): void {
  it(`gets all that spoold ${each.name} prints`, async () => {
    const { path, code, stdout } = await run(each, SLEEPER)
    assert.equal(code, each.code ?? 0)
    const { rows = ROWS, extra = 0 } = each
    if (each.name === 'doctor') assert.ok(lines(stdout) > rows)
    else assert.equal(lines(stdout), rows + extra)
    assert.ok(stdout.length > 130_000, 'the output is more than a pipe holds')
    if (each.left !== undefined) assert.equal(leftIn(path).length, each.left)
  })
}

/** Tests that a command that only prints ends with 0 when its reader leaves early. */
export function ends(each: Case): void {
  it(`ends spoold ${each.name} with 0`, async () => {
    const { code, stderr } = await run(each, LEAVER)
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' })
  })
}

/** Tests that a reader that leaves early does not change the exit code of a command whose answer is that code. */
export function changesNoAnswer(each: Case): void {
  it(`does not change what spoold ${each.name} answers`, async () => {
    const { code, stderr } = await run(each, LEAVER)
    assert.deepEqual({ code, stderr }, { code: each.code, stderr: '' })
  })
}

/** Tests that a command that changes something does all of it when its reader leaves early, and ends with 74. */
export function keepsNoWorkUndone(each: Case): void {
  it(`does not keep spoold ${each.name} from doing all of it, and ends with 74`, async () => {
    const { path, code, stderr } = besidesIdle(await run(each, LEAVER))
    assert.deepEqual({ code, stderr }, { code: 74, stderr: '' })
    if (each.left !== undefined) assert.equal(leftIn(path).length, each.left)
  })
}
