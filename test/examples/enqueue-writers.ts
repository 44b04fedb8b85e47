import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Requirement } from '../helpers/requires.js'
import { FIXTURES, ROOT } from '../helpers/workspace.js'
import type { Row } from './enqueue-table.js'

/** An example of spool-examples/enqueue with the program of fixtures/enqueue/drivers that calls it. */
export interface Writer {
  readonly language: string
  readonly needs: Requirement
  /** It cannot be given a NUL byte in a key or a value. */
  readonly lacksNul?: boolean
  /** It takes `at` as text, not as a number. */
  readonly takesText?: boolean
  /** Compiles it into an empty directory. @returns the command that runs it */
  readonly build: (directory: string) => readonly string[]
}

const example = (name: string) => join(ROOT, 'spool-examples/enqueue', name)
const driver = (name: string) => join(FIXTURES, 'enqueue/drivers', name)
const compile = (command: string, ...args: string[]) => execFileSync(command, args, { timeout: 120_000 })

export const WRITERS: readonly Writer[] = [
  {
    language: 'Python',
    needs: 'python3',
    build: () => ['env', `PYTHONPATH=${example('python')}`, 'python3', '-B', driver('driver.py')],
  },
  {
    language: 'Perl',
    needs: 'perl',
    takesText: true,
    build: () => ['perl', '-I', example('perl'), driver('driver.pl')],
  },
  { language: 'Ruby', needs: 'ruby', build: () => ['ruby', '-I', example('ruby'), driver('driver.rb')] },
  { language: 'PHP', needs: 'php', build: () => ['php', driver('driver.php'), example('php/spool.php')] },
  {
    language: 'Bash',
    needs: 'bash',
    lacksNul: true,
    takesText: true,
    build: () => ['bash', driver('driver.bash'), example('bash/spool.bash')],
  },
  { language: 'Go', needs: 'go', build: buildGo },
  {
    language: 'Rust',
    needs: 'rustc',
    build: directory => {
      compile(
        'rustc',
        '--edition',
        '2021',
        '-D',
        'warnings',
        '-A',
        'dead_code',
        '-o',
        join(directory, 'driver'),
        driver('driver.rs'),
      )
      return [join(directory, 'driver')]
    },
  },
  {
    language: 'C',
    needs: 'cc',
    build: directory => {
      const warnings = ['-std=c99', '-O2', '-Wall', '-Wextra', '-Wpedantic', '-Werror']
      const sources = [driver('driver.c'), example('c/spool.c')]
      compile('cc', ...warnings, '-I', example('c'), ...sources, '-o', join(directory, 'driver'))
      return [join(directory, 'driver')]
    },
  },
  {
    language: 'Java',
    needs: 'javac',
    build: directory => {
      compile(
        'javac',
        '--release',
        '11',
        '-Xlint:all',
        '-Werror',
        '-d',
        directory,
        example('java/Spool.java'),
        driver('Driver.java'),
      )
      return ['java', '-XX:TieredStopAtLevel=1', '-cp', directory, 'Driver']
    },
  },
  {
    language: 'C#',
    needs: 'mcs',
    build: directory => {
      const program = join(directory, 'driver.exe')
      compile('mcs', '-warnaserror', `-out:${program}`, example('csharp/Spool.cs'), driver('Driver.cs'))
      return ['mono', program]
    },
  },
]

/** With the Go of golang-go, or with that of GCC, which is half as large. */
function buildGo(directory: string): string[] {
  const program = join(directory, 'program')
  mkdirSync(join(directory, 'driver'))
  mkdirSync(join(directory, 'driver/spool'))
  writeFileSync(join(directory, 'driver/go.mod'), 'module driver\n')
  copyFileSync(example('go/spool.go'), join(directory, 'driver/spool/spool.go'))
  copyFileSync(driver('driver.go'), join(directory, 'driver/main.go'))
  if (spawnSync('go', ['version']).status === 0) {
    const env = { ...process.env, GOCACHE: join(directory, 'cache'), GOTOOLCHAIN: 'local', GO111MODULE: 'on' }
    execFileSync('go', ['build', '-o', program, '.'], {
      cwd: join(directory, 'driver'),
      env,
      timeout: 120_000,
    })
    return [program]
  }
  const compiled = join(directory, 'driver/spool.o')
  compile(
    'gccgo',
    '-c',
    '-fgo-pkgpath=driver/spool',
    '-o',
    compiled,
    join(directory, 'driver/spool/spool.go'),
  )
  compile('gccgo', '-I', directory, '-o', program, join(directory, 'driver/main.go'), compiled)
  return [program]
}

export interface Written {
  readonly code: number | null
  readonly paths: readonly string[]
  readonly stderr: string
}

/** Has the rows written into a spool, in one process: a line with spooler, at, priority, body, keys and values for each. */
export function write(command: readonly string[], rows: readonly Row[], spool: string): Written {
  const input = rows.map(row => `${lineOf(row, spool)}\n`).join('')
  const shell = ['-c', 'umask 000; exec "$0" "$@"', ...command] // modes are the writer's own business
  const { status, stdout, stderr } = spawnSync('sh', shell, { input, encoding: 'utf8', timeout: 60_000 })
  return { code: status, paths: stdout.split('\n').filter(Boolean), stderr }
}

function lineOf({ dictionary, at, priority, body }: Row, spool: string): string {
  return hexFields([spool, at, priority, body, ...dictionary.flat()])
}

/** What the drivers read: fields between spaces, `=` and hex, or `-` for what is not given. */
export function hexFields(fields: ReadonlyArray<string | Buffer | undefined>): string {
  return fields.map(field => (field === undefined ? '-' : `=${Buffer.from(field).toString('hex')}`)).join(' ')
}
