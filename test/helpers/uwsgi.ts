import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { TestProcess } from './process.js'
import { PYTHON, virtualenv } from './python.js'
import { type Requirement, UWSGI } from './requires.js'

/** One of the uWSGIs that tests run beside, and with which they compare. */
export interface Uwsgi {
  /** Its name in the titles of tests. */
  readonly title: string
  readonly needs: Requirement
  readonly command: string
  /** The ini lines with which it runs Python. */
  readonly python: Readonly<Record<string, string>>
  /** The ini lines with which spoold runs the same Python, with the same modules. */
  readonly samePython: Readonly<Record<string, string>>
  /** True if the other plugins are part of the program, too. */
  readonly isWhole: boolean
}

const VENV = virtualenv('uwsgi')

export const DEBIAN: Uwsgi = {
  title: "Debian's uWSGI",
  needs: 'uwsgi',
  command: UWSGI,
  python: { plugin: 'python3' },
  samePython: { python: PYTHON },
  isWhole: false,
}

export const PYPI: Uwsgi = {
  title: "PyPI's uWSGI",
  needs: 'venv:uwsgi',
  command: join(VENV, 'bin/uwsgi'),
  python: { virtualenv: VENV },
  samePython: { virtualenv: VENV },
  isWhole: true,
}

export const UWSGIS: readonly Uwsgi[] = [DEBIAN, PYPI]

/** Returns the options that load plugins of any other kind: none where they are part of the program. */
export const withPlugins = ({ isWhole }: Uwsgi, ...names: string[]): string[] =>
  isWhole ? [] : ['--plugin', names.join(',')]

/** Returns ini lines as options of the command line. */
export const asOptions = (settings: Readonly<Record<string, string>>): string[] =>
  Object.entries(settings).flatMap(([key, value]) => [`--${key}`, value])

interface UwsgiSetup {
  readonly uwsgi: Uwsgi
  readonly spool: string
  /** Python source, in which `journal(line)` appends to the same journal as the daemon's handlers. */
  readonly handler: string
  readonly args?: readonly string[]
  readonly env?: NodeJS.ProcessEnv
}

const PRELUDE = (journal: string) => `
import os, random, time, uwsgi
_fd = os.open(${JSON.stringify(journal)}, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
def journal(line): os.write(_fd, (line + '\\n').encode())
`

/** Starts a real uWSGI with its spooler on the directory. */
export function startUwsgi({ uwsgi, spool, handler, args = [], env = {} }: UwsgiSetup): TestProcess {
  const directory = dirname(spool)
  const script = join(directory, 'uwsgi_handler.py')
  writeFileSync(script, PRELUDE(join(directory, 'journal')) + handler)
  const options = [
    ...asOptions(uwsgi.python),
    '--master',
    '--die-on-term',
    '--spooler-frequency',
    '1',
    '--import',
    script,
  ]
  return new TestProcess(uwsgi.command, [...options, '--spooler', spool, ...args], { cwd: directory, env })
}
