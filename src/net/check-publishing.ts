import { messageOf } from '../base/errors.js'
import { isLocal, parseAddress } from '../protocol/address.js'

/** The options that this room checks. */
interface PublishingOptions {
  readonly stats: string | null
  readonly statsHttp: boolean
  readonly spoolerHttpInsecure: boolean
}

/** HTTP over a network, without encryption and for whoever can reach it, has to be asked for. */
export function needsInsecure(
  address: string,
  { spoolerHttpInsecure }: Pick<PublishingOptions, 'spoolerHttpInsecure'>,
): boolean {
  return !spoolerHttpInsecure && !isLocal(parseAddress(address))
}

/** @param problem is called with each */
export function checkPublishing(
  options: PublishingOptions,
  problem: (severity: 'error' | 'warning', name: string, message: string) => void,
): void {
  const { stats, statsHttp } = options
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
