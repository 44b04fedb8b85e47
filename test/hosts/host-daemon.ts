import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Daemon, type DaemonSetup, startDaemon } from '../helpers/daemon.js'
import { childrenOf, commandOf } from '../helpers/process.js'
import { PYTHON } from '../helpers/python.js'

export type Language = 'python' | 'perl' | 'ruby'

/** A function `journal(line)` in each language, to the file that `daemon.journal()` reads. */
const PRELUDES: Readonly<Record<Language, (journal: string) => string>> = {
  python: journal => `
import os, sys, time, uwsgi
_fd = os.open(${JSON.stringify(journal)}, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
def journal(line): os.write(_fd, (line + '\\n').encode())
`,
  perl: journal => `
use strict; use warnings;
open(my $journal, '>>', ${JSON.stringify(journal)}) or die; $journal->autoflush(1);
sub journal { syswrite($journal, "$_[0]\\n") }
`,
  ruby: journal => `
$journal = File.open(${JSON.stringify(journal)}, 'ab'); $journal.sync = true
def journal(line) $journal.write(line.b + "\\n") end
`,
}

/** The options that load a handler, before any fork. */
export const OPTIONS = { python: 'import', perl: 'perl-exec', ruby: 'shared-rbrequire' } as const
export const SUFFIXES = { python: 'py', perl: 'pl', ruby: 'rb' } as const

/** Writes a handler beside the spool. @returns its file */
export function writeHandler(spool: string, language: Language, source: string, name = 'tasks'): string {
  const file = join(dirname(spool), `${name}.${SUFFIXES[language]}`)
  writeFileSync(file, PRELUDES[language](join(dirname(spool), 'journal')) + source)
  return file
}

/** Starts the built daemon with a handler in another language. */
export function startHost(
  language: Language,
  { spool, handler = '', name = 'tasks', ini = {}, ...setup }: DaemonSetup & { readonly name?: string },
): Promise<Daemon> {
  const file = writeHandler(spool, language, handler, name)
  const interpreter = language === 'python' ? { python: PYTHON } : {}
  return startDaemon({
    ...setup,
    spool,
    isForeign: true,
    ini: { ...interpreter, [OPTIONS[language]]: file, ...ini },
  })
}

/** Returns the pids of the interpreters below a daemon. */
export function hostsOf(daemon: Daemon): number[] {
  return daemon
    .children()
    .flatMap(childrenOf)
    .filter(pid => commandOf(pid).includes('/hosts/'))
}
