import { existsSync } from 'node:fs'
import { SpooldError } from '../../base/errors.js'
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
  throw new SpooldError('USAGE', `${word}: no such file, and no command; ${hintFor(word, commands)}`)
}

/** @param topic of `spoold help` @throws SpooldError USAGE */
export function refuseUnknownTopic(topic: string | undefined, commands: readonly string[]): void {
  if (topic === undefined || topic.startsWith('-') || commands.includes(topic)) return
  throw new SpooldError('USAGE', `${topic}: no such command; ${hintFor(topic, commands)}`)
}

function hintFor(word: string, commands: readonly string[]): string {
  const nearest = nearestOf(word.toLowerCase(), commands)
  if (Object.hasOwn(ADVICE, word)) return ADVICE[word] ?? ''
  return nearest === undefined ? 'see spoold --help' : `did you mean ${nearest}?`
}
