import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PYTHON } from '../helpers/python.js'
import type { Requirement } from '../helpers/requires.js'
import { FIXTURES, ROOT } from '../helpers/workspace.js'
import type { Row } from './enqueue-table.js'

/** An example of spool-examples/enqueue. */
export interface Writer {
  readonly language: string
  /** Below spool-examples/enqueue. */
  readonly folder: string
  readonly needs: Requirement
  /** The program of fixtures/enqueue/drivers that calls it for each line it reads. */
  readonly driver: string
  /** True if it cannot be given a NUL byte in a key or a value. */
  readonly lacksNul?: boolean
  /** True if it takes `at` as text, not as a number. */
  readonly takesText?: boolean
  /** What compiles `main` beside the example. */
  readonly compile?: (main: string) => ReadonlyArray<readonly [string, ...string[]]>
  /** What runs it. */
  readonly run: (main: string) => readonly [string, ...string[]]
}

const C_FLAGS = ['-std=c99', '-O2', '-Wall', '-Wextra', '-Wpedantic', '-Werror']

export const WRITERS: readonly Writer[] = [
  {
    language: 'Python',
    folder: 'python',
    needs: 'python3',
    driver: 'driver.py',
    run: main => [PYTHON, '-B', main],
  },
  {
    language: 'Perl',
    folder: 'perl',
    needs: 'perl',
    driver: 'driver.pl',
    takesText: true,
    run: main => ['perl', '-I', '.', main],
  },
  { language: 'Ruby', folder: 'ruby', needs: 'ruby', driver: 'driver.rb', run: main => ['ruby', main] },
  { language: 'PHP', folder: 'php', needs: 'php', driver: 'driver.php', run: main => ['php', main] },
  {
    language: 'Bash',
    folder: 'bash',
    needs: 'bash',
    driver: 'driver.bash',
    lacksNul: true,
    takesText: true,
    run: main => ['bash', main],
  },
  {
    language: 'Go',
    folder: 'go',
    needs: 'go',
    driver: 'driver.go',
    compile: main => (hasGccGo() ? gccGo(main) : [['go', 'build', '-o', 'program', main]]),
    run: () => ['./program'],
  },
  {
    language: 'Rust',
    folder: 'rust',
    needs: 'rustc',
    driver: 'driver.rs',
    compile: main => [
      ['rustc', '--edition', '2021', '-D', 'warnings', '-A', 'dead_code', '-o', 'program', main],
    ],
    run: () => ['./program'],
  },
  {
    language: 'C',
    folder: 'c',
    needs: 'cc',
    driver: 'driver.c',
    compile: main => [['cc', ...C_FLAGS, main, 'spool.c', '-o', 'program']],
    run: () => ['./program'],
  },
  {
    language: 'Java',
    folder: 'java',
    needs: 'javac',
    driver: 'Driver.java',
    compile: main => [['javac', '--release', '11', '-Xlint:all', '-Werror', 'Spool.java', main]],
    run: main => ['java', '-XX:TieredStopAtLevel=1', main.replace('.java', '')],
  },
  {
    language: 'C#',
    folder: 'csharp',
    needs: 'mcs',
    driver: 'Driver.cs',
    compile: main => [['mcs', '-warnaserror', '-out:program.exe', 'Spool.cs', main]],
    run: () => ['mono', 'program.exe'],
  },
]

const hasGccGo = () => spawnSync('gccgo', ['--version']).status === 0

/** GCC's Go: Go's own is twice as large, and compiles its library first. */
const gccGo = (main: string): ReadonlyArray<readonly [string, ...string[]]> => [
  [
    'gccgo',
    '-c',
    '-fgo-pkgpath=example/internal/spool',
    '-o',
    'example/internal/spool.o',
    'internal/spool/spool.go',
  ],
  ['gccgo', '-I', '.', '-o', 'program', main, 'example/internal/spool.o'],
]

export const driverSource = (name: string) => join(FIXTURES, 'enqueue/drivers', name)

/**
 * Puts the example and a program that uses it into an empty directory, and compiles them.
 *
 * @returns the command that runs the program there
 */
export function prepare(
  writer: Writer,
  directory: string,
  main: string,
  source: string | Buffer,
): readonly [string, ...string[]] {
  const example = join(ROOT, 'spool-examples/enqueue', writer.folder)
  cpSync(example, join(directory, writer.language === 'Go' ? 'internal/spool' : ''), { recursive: true })
  if (writer.language === 'Go') {
    mkdirSync(join(directory, 'example/internal'), { recursive: true }) // for GCC
    writeFileSync(join(directory, 'go.mod'), 'module example\n')
  }
  writeFileSync(join(directory, main), source)
  const env = { ...process.env, GOCACHE: join(directory, '.cache'), GOTOOLCHAIN: 'local', GO111MODULE: 'on' }
  for (const [command, ...args] of writer.compile?.(main) ?? [])
    execFileSync(command, args, { cwd: directory, env, timeout: 120_000 })
  return writer.run(main)
}

export interface Written {
  readonly code: number | null
  /** For each row its path, or `! ` and why it was refused. */
  readonly answers: readonly string[]
  readonly stderr: string
}

/** Has one process write the rows into a spool: a line for each, with spooler, at, priority, body, keys and values. */
export function write(
  directory: string,
  command: readonly string[],
  rows: readonly Row[],
  spool: string,
): Written {
  const input = rows.map(row => `${lineOf(row, spool)}\n`).join('')
  const shell = ['-c', 'umask 000; exec "$0" "$@"', ...command] // modes are the writer's own business
  const options = { cwd: directory, input, encoding: 'utf8', timeout: 60_000 } as const
  const { status, stdout, stderr } = spawnSync('sh', shell, options)
  return { code: status, answers: stdout.split('\n').filter(Boolean), stderr }
}

function lineOf({ dictionary, at, priority, body }: Row, spool: string): string {
  return hexFields([spool, at, priority, body, ...dictionary.flat()])
}

/** Returns a line for the drivers: fields between spaces, each `=` and hex, or `-` if it is not given. */
export function hexFields(fields: ReadonlyArray<string | Buffer | undefined>): string {
  return fields
    .map(field => (field === undefined ? '-' : `=${Buffer.from(field).toString('hex').toUpperCase()}`))
    .join(' ')
}
