import { spawnSync } from 'node:child_process'
import { resolveOptions } from '#src/formats/config/options.js'
import { readConfig } from '#src/formats/ini/read-config.js'
import { formatProblem, type Setting } from '#src/formats/ini/setting.js'
import { patience } from '../helpers/until.js'
import type { Uwsgi } from '../helpers/uwsgi.js'
import { type Given, sourcesOf } from './reading.js'

/** What a real uWSGI printed: lines `key = value` as --show-config has them, or how it failed. */
type Shown = { readonly list: string } | { readonly failure: string }

interface Compared {
  readonly theirs: Shown
  readonly ours: { readonly list: string; readonly errors: readonly string[] }
}

/** The options with which uWSGI prints the list, starts nothing and exits. */
const QUIET = ['--no-server', '--show-config']
/** The environment of both, so that neither uses a variable that only one of them has. */
const BASE_ENV = { PATH: process.env.PATH, HOME: '/root', EMPTY: '', NAME: 'value' }

export const versionOf = ({ command }: Uwsgi): string =>
  spawnSync(command, ['--version'], { encoding: 'utf8' }).stdout.trim()

/** Returns what spoold and uWSGI make of the same files, command line and environment. */
export function compare(uwsgi: Uwsgi, { argv = ['--ini', 'app.ini'], env = {}, ...more }: Given): Compared {
  const flags = [...QUIET, ...argv]
  const environment = { ...BASE_ENV, ...env }
  const config = readConfig(sourcesOf({ ...more, argv: flags, env: environment }))
  resolveOptions(config)
  return {
    theirs: askUwsgi(uwsgi, flags, environment),
    ours: { list: format(config.settings, argv), errors: config.problems.errors.map(formatProblem) },
  }
}

/** Bounds the memory of uWSGI, which grows without limit when a value refers to itself, and ignores SIGTERM then. */
const BOUNDED = ['-c', 'ulimit -v 1000000; exec env -i "$@"', 'sh']

function askUwsgi({ command }: Uwsgi, argv: readonly string[], env: NodeJS.ProcessEnv): Shown {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`) // env(1) keeps their order
  const { stdout, stderr, status, signal } = spawnSync('sh', [...BOUNDED, ...variables, command, ...argv], {
    input: '',
    timeout: 2000 * patience(),
    killSignal: 'SIGKILL',
    encoding: 'utf8',
  })
  const output = `${stdout}${stderr}`
  const [, list] =
    /;uWSGI instance configuration\n\[uwsgi\]\n([\s\S]*?);end of configuration\n/.exec(output) ?? []
  return list === undefined ? { failure: `${signal ?? status}: ${output.slice(-300)}` } : { list }
}

/** Formats settings as uWSGI prints them: a flag of the command line has no value at all there, and is printed as true. */
function format(settings: readonly Setting[], argv: readonly string[]): string {
  const isBare = ({ key, value, where }: Setting) =>
    value === '' && where.file === 'command line' && !argv.some(arg => arg.endsWith(`${key}=`))
  return settings.map(setting => `${setting.key} = ${isBare(setting) ? 'true' : setting.value}\n`).join('')
}
