// Throughput of no-op tasks with handlers in Python, Perl and Ruby, compared with uWSGI and the same handler.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PYTHON } from '../test/python/environments.mjs'
import { rate } from './drain.mjs'
import { BIN, inPairs, isInstalled, start } from './harness.mjs'

const LANGUAGES = [
  {
    name: 'Python',
    plugin: 'python3',
    option: '--import',
    file: 'noop.py',
    source: 'import uwsgi\ndef spooler(env): return uwsgi.SPOOL_OK\nuwsgi.spooler = spooler\n',
    extra: ['--python', PYTHON],
    tasks: 100_000,
    processes: [1, 2],
    mostPairs: 5,
    target: 1.0,
  },
  {
    name: 'Perl',
    plugin: 'psgi',
    option: '--perl-exec',
    file: 'noop.pl',
    source: 'uwsgi::spooler(sub { return uwsgi::SPOOL_OK });\n',
    extra: [],
    tasks: 100_000,
    processes: [2],
    mostPairs: 3,
  },
  {
    name: 'Ruby',
    plugin: 'rack_ruby31',
    option: '--shared-rbrequire',
    file: 'noop.rb',
    source: 'def UWSGI.spooler(env) UWSGI::SPOOL_OK end\n',
    extra: [],
    tasks: 4000, // few, because uWSGI collects garbage after each task
    processes: [2],
    mostPairs: 3,
  },
]

const starter =
  (command, { file, source, option }, more) =>
  (directory, spool, options) => {
    const handler = join(directory, file)
    writeFileSync(handler, source)
    const args = ['--master', '--spooler-quiet', '--spooler-frequency', '1', '--spooler', spool]
    const [program, ...first] = command
    return start(program, [...first, ...more, option, handler, ...args, ...options], join(directory, 'log'))
  }

export const title = 'A backlog of no-op tasks in other languages, beside uWSGI'
export const about = `tmpfs, quiet; the same handler on both sides, in uWSGI in the spooler's process, in spoold in one of its own; ${LANGUAGES.map(({ name, tasks }) => `${tasks.toLocaleString('en')} tasks in ${name}`).join(', ')};
tasks per second, from exec and from a tenth on.`

export async function run({ pairs, scale, say }) {
  if (!isInstalled('uwsgi')) return undefined
  const rows = []
  for (const language of LANGUAGES.filter(({ plugin }) =>
    isInstalled('uwsgi', ['--plugin', plugin, '--version']),
  ))
    for (const processes of language.processes) {
      const count = Math.round(language.tasks * scale)
      const options = ['--spooler-processes', String(processes)]
      const name = `${language.name}, ${processes === 1 ? 'one process' : 'two processes'}`
      const ours = starter([process.execPath, BIN], language, language.extra)
      const theirs = starter(['uwsgi'], language, ['--plugin', language.plugin])
      const figures = await inPairs(
        Math.min(pairs, language.mostPairs),
        () => rate(ours, count, options),
        () => rate(theirs, count, options),
        (mine, other) => say(`${name}: ${Math.round(mine['from exec'])} / ${Math.round(other['from exec'])}`),
      )
      for (const figure of figures) rows.push({ case: name, target: language.target, ...figure })
    }
  return { rows }
}
