import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { closeSync, existsSync, mkdirSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { leftIn, packet } from '../helpers/files.js'
import { LEAVER, piped, SLEEPER } from '../helpers/pipe.js'
import { isLong } from '../helpers/requires.js'
import { BIN, spoolDirectory, workspace } from '../helpers/workspace.js'

/** With the length of their names far more than a pipe holds. */
const ROWS = isLong ? 100_000 : 700
/** Where a row is short, and cheap. */
const MANY = isLong ? 100_000 : 2000

function filled(below = ''): string {
  const spool = spoolDirectory()
  mkdirSync(join(spool, '.spoold'), { mode: 0o700 })
  mkdirSync(join(spool, below), { recursive: true, mode: 0o700 })
  for (let i = 0; i < ROWS; i++)
    writeFileSync(join(spool, below, `task-${i}-${'x'.repeat(200)}`), packet({ n: String(i) }), {
      mode: 0o600,
    })
  return spool
}

const dead = () => filled('.spoold/dead')

async function held(): Promise<string> {
  const spool = filled()
  await spoold(['hold', '--all', '--quiet', spool])
  return spool
}

/** A configuration with a warning for each of its lines. */
function wordy(): string {
  const ini = join(workspace(), 'app.ini')
  const wrong = Array.from({ length: MANY }, (_, i) => `no-such-option-${i}-${'x'.repeat(60)} = 1`)
  writeFileSync(ini, `[uwsgi]\nspooler = /nonexistent/spool\n${wrong.join('\n')}\n`)
  return ini
}

const jsonRows = () => Array.from({ length: MANY }, (_, i) => `{"n":${i}}\n`).join('')
const lines = (text: string) => text.split('\n').length - 1

type Setup = () => string | Promise<string>
interface Case {
  readonly name: string
  /** A spool, or a file. */
  readonly on: Setup
  args(path: string): string[]
  readonly input?: () => string
  /** ROWS, unless it says otherwise. */
  readonly rows?: number
  /** Lines besides one for each row. */
  readonly extra?: number
  /** Its own exit code. */
  readonly code?: number
  /** How many tasks are in the spool behind it. */
  readonly left?: number
}

/** They only print. */
const LOOKS: readonly Case[] = [
  { name: 'ls', on: filled, args: spool => ['ls', spool], extra: 1 },
  { name: 'ls --json', on: filled, args: spool => ['ls', '--json', spool] },
  { name: 'rm --dry-run', on: filled, args: spool => ['rm', '--all', '--dry-run', spool], left: ROWS },
]

/** Their exit code is their answer. */
const JUDGES: readonly Case[] = [
  { name: 'fsck', on: dead, args: spool => ['fsck', spool], extra: 1, code: 1 },
  { name: 'check', on: wordy, rows: MANY, args: ini => ['check', ini], code: 1, extra: 3 },
  { name: 'doctor', on: wordy, rows: MANY, args: ini => ['doctor', ini], code: 1 },
]

/** They change something, and tell of it. */
const CHANGES: readonly Case[] = [
  { name: 'hold', on: filled, args: spool => ['hold', '--all', spool], left: ROWS },
  { name: 'release', on: held, args: spool => ['release', '--all', spool], left: ROWS },
  { name: 'kick --json', on: filled, args: spool => ['kick', '--all', '--json', spool], left: ROWS },
  { name: 'requeue', on: dead, args: spool => ['requeue', '--all', spool], left: ROWS },
  { name: 'move', on: filled, args: spool => ['move', '--all', '--to', spoolDirectory(), spool], left: 0 },
  { name: 'rm', on: filled, args: spool => ['rm', '--all', spool], left: 0 },
  { name: 'fsck --repair', on: dead, args: spool => ['fsck', '--repair', spool], extra: 1 },
  {
    name: 'enqueue --json',
    on: spoolDirectory,
    args: spool => ['enqueue', '--spooler', spool, '--json', '-'],
    input: jsonRows,
    rows: MANY,
    left: MANY,
  },
]

async function run({ on, args, input }: Case, reader: string) {
  const path = await on()
  return { path, ...(await piped(args(path), reader, input?.())) }
}

describe('a reader that sleeps', { concurrency: 4 }, () => {
  for (const each of [...LOOKS, ...JUDGES, ...CHANGES])
    it(`gets all that spoold ${each.name} prints`, async () => {
      const { path, code, stdout } = await run(each, SLEEPER)
      assert.equal(code, each.code ?? 0)
      const { rows = ROWS, extra = 0 } = each
      if (each.name === 'doctor') assert.ok(lines(stdout) > rows)
      else assert.equal(lines(stdout), rows + extra)
      assert.ok(stdout.length > 130_000, 'more than a pipe holds')
      if (each.left !== undefined) assert.equal(leftIn(path).length, each.left)
    })
})

describe('a reader that leaves', { concurrency: 2 }, () => {
  for (const each of LOOKS)
    it(`ends spoold ${each.name} with 0`, async () => {
      const { code, stderr } = await run(each, LEAVER)
      assert.deepEqual({ code, stderr }, { code: 0, stderr: '' })
    })

  for (const each of JUDGES)
    it(`does not change what spoold ${each.name} answers`, async () => {
      const { code, stderr } = await run(each, LEAVER)
      assert.deepEqual({ code, stderr }, { code: each.code, stderr: '' })
    })

  for (const each of CHANGES)
    it(`does not keep spoold ${each.name} from doing all of it, and ends with 74`, async () => {
      const { path, code, stderr } = await run(each, LEAVER)
      assert.deepEqual({ code, stderr }, { code: 74, stderr: '' })
      if (each.left !== undefined) assert.equal(leftIn(path).length, each.left)
    })

  it('leaves an exit code of its own as it is', async () => {
    const spool = filled()
    const { code } = await piped(['rm', '--all', `${spool}/no-such-task`, spool], LEAVER)
    assert.equal(code, 1)
    assert.deepEqual(leftIn(spool), [])
  })

  it('ends spoold --help with 0', async () => {
    const { code } = await piped(['--help'], 'exec <&-; sleep 1')
    assert.equal(code, 0)
  })
})

describe('a full disk behind standard output', {
  skip: existsSync('/dev/full') ? false : 'needs /dev/full',
}, () => {
  function intoFull(args: readonly string[]) {
    const full = openSync('/dev/full', 'w')
    try {
      const { status, stderr } = spawnSync(process.execPath, [BIN, ...args], {
        stdio: ['ignore', full, 'pipe'],
      })
      return { code: status, stderr: String(stderr) }
    } finally {
      closeSync(full)
    }
  }

  it('is an error of a command that prints', () => {
    const { code, stderr } = intoFull(['ls', filled()])
    assert.equal(code, 74)
    assert.match(stderr, /^spoold: \[OUTPUT_FAILED\] standard output cannot be written: ENOSPC[^\n]*\n$/)
  })

  it('is an error of --help', () => {
    assert.equal(intoFull(['--help']).code, 74)
  })

  it('does not keep a command from what it changes, and is reported', () => {
    const spool = filled()
    const { code, stderr } = intoFull(['rm', '--all', spool])
    assert.equal(code, 74)
    assert.match(stderr, /^spoold: \[OUTPUT_FAILED\] [^\n]*ENOSPC[^\n]*; the command goes on\n$/)
    assert.deepEqual(leftIn(spool), [])
  })
})
