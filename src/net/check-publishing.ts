import { messageOf } from '../base/errors.js'
import { isLocal, parseAddress } from '../protocol/address.js'
import { parseHostPort, parsePush } from './stats-push.js'

/** @param i which value of a list */
type Complain = (severity: 'error' | 'warning', name: string, message: string, i?: number) => void

/** The options that this room checks. */
interface PublishingOptions {
  readonly stats: string | null
  readonly statsHttp: boolean
  readonly spoolerHttpInsecure: boolean
  readonly statsPush: readonly string[]
  readonly carbon: readonly string[]
}

/** HTTP over a network, without encryption and for whoever can reach it, has to be asked for. */
export function needsInsecure(
  address: string,
  { spoolerHttpInsecure }: Pick<PublishingOptions, 'spoolerHttpInsecure'>,
): boolean {
  return !spoolerHttpInsecure && !isLocal(parseAddress(address))
}

/** @param problem is called with each */
export function checkPublishing(options: PublishingOptions, problem: Complain): void {
  const { stats, statsHttp, statsPush, carbon } = options
  for (const [i, text] of statsPush.entries())
    attempt(
      () => parsePush(text),
      message => problem('warning', 'stats-push', `${message}; nothing is pushed there`, i), // uWSGI may know it
    )
  for (const [i, text] of carbon.entries())
    attempt(
      () => parseHostPort(text),
      message => problem('error', 'carbon', message, i),
    )
  if (stats === null) return
  try {
    if (statsHttp && needsInsecure(stats, options))
      problem(
        'warning', // in an ini that a uWSGI shares, this is no reason to run no tasks
        'stats',
        `${stats} is left closed: whoever can reach it would read it over plain HTTP; use 127.0.0.1 or a unix socket behind a proxy with TLS, or set spooler-http-insecure`,
      )
    else if (!isLocal(parseAddress(stats)))
      problem('warning', 'stats', `whoever can reach ${stats} can read the names of tasks and files`)
  } catch (error) {
    problem('error', 'stats', messageOf(error))
  }
}

function attempt(parse: () => unknown, failed: (message: string) => void): void {
  try {
    parse()
  } catch (error) {
    failed(messageOf(error))
  }
}
