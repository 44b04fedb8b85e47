import { isUtf8 } from 'node:buffer'
import { existsSync, readFileSync } from 'node:fs'
import { describe, SpooldError } from '../../base/errors.js'
import { nearestOf } from '../../formats/config/suggestion.js'

/** Commands that people try because other programs have them. */
const ADVICE: Readonly<Record<string, string>> = {
  start: 'spoold app.ini runs the daemon, in the background with daemonize = LOGFILE',
  run: 'spoold app.ini runs the daemon',
  stop: 'send SIGTERM to the daemon: kill $(cat PIDFILE), or systemctl stop',
  restart: 'SIGHUP reloads the daemon: kill -HUP $(cat PIDFILE), or systemctl reload',
  reload: 'send SIGHUP to the daemon: kill -HUP $(cat PIDFILE), or systemctl reload',
  list: 'spoold ls DIR lists the tasks',
  version: 'spoold --version prints it',
  drain: 'spoold --drain app.ini runs what is due',
  pause: 'spoold hold --all DIR holds what is there',
  retry: 'spoold requeue puts dead letters back, spoold kick runs waiting tasks now',
  delete: 'spoold rm removes tasks',
  add: 'spoold enqueue stores tasks',
}

/**
 * Refuses a first word that would be taken for an ini file. If there is no such file, and the word does not look like a
 * file name, the user meant a command.
 *
 * @throws SpooldError USAGE
 */
export function refuseMistyped(word: string, commands: readonly string[]): void {
  if (!/^[a-z][a-z-]*$/i.test(word) || commands.includes(word) || existsSync(word)) return
  const advice = Object.hasOwn(ADVICE, word) ? ADVICE[word] : undefined
  const nearest = nearestOf(word.toLowerCase(), commands)
  const hint = advice ?? (nearest === undefined ? 'see spoold --help' : `did you mean ${nearest}?`)
  throw new SpooldError('USAGE', `${word}: no such file, and no command; ${hint}`)
}

/** Node's replacement for bytes that are not UTF-8. It may also be a genuine character of the argument. */
const REPLACEMENT = '\ufffd'

/**
 * Refuses arguments that are not UTF-8: Node has replaced bytes in them, so they would name another file or store
 * another value.
 *
 * @throws SpooldError USAGE
 */
export function refuseChangedBytes(argv: readonly string[]): void {
  const suspects = argv.filter(arg => arg.includes(REPLACEMENT))
  if (suspects.length === 0) return
  const raw = rawArguments()
  const changed = suspects.find(arg => raw === undefined || raw.has(arg))
  if (changed === undefined) return
  const isPair = argv[0] === 'enqueue' && !changed.startsWith('-')
  const [, key] = (isPair && /^([^=\ufffd]+)=/.exec(changed)) || []
  const hint = key === undefined ? '' : `; put the bytes into a file and write ${key}=@FILE`
  throw new SpooldError(
    'USAGE',
    `the argument ${describe(changed)} is not UTF-8, and would be changed${hint}`,
  )
}

/** The arguments that are not UTF-8, as Node has decoded them; undefined if /proc cannot tell. */
function rawArguments(): Set<string> | undefined {
  try {
    const bytes = readFileSync('/proc/self/cmdline').toString('latin1').split('\0')
    return new Set(
      bytes
        .map(arg => Buffer.from(arg, 'latin1'))
        .filter(arg => !isUtf8(arg))
        .map(arg => arg.toString()),
    )
  } catch {
    return undefined
  }
}
