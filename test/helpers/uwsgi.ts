import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { TestProcess } from './process.js'

interface UwsgiSetup {
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
export function startUwsgi({ spool, handler, args = [], env = {} }: UwsgiSetup): TestProcess {
  const directory = dirname(spool)
  const script = join(directory, 'uwsgi_handler.py')
  writeFileSync(script, PRELUDE(join(directory, 'journal')) + handler)
  const options = [
    '--plugin',
    'python3',
    '--master',
    '--die-on-term',
    '--spooler-frequency',
    '1',
    '--import',
    script,
  ]
  return new TestProcess('uwsgi', [...options, '--spooler', spool, ...args], { cwd: directory, env })
}
