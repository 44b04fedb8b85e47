import { describe, SpooldError } from '../../../base/errors.js'
import { sendSignal } from '../../../engines/client/send-signal.js'
import { resolveOptions } from '../../../formats/config/options.js'
import { readConfig } from '../../../formats/ini/read-config.js'
import { readVersion } from '../version.js'

interface SignalOptions {
  readonly socket?: string
  readonly ini?: string
}

/** `spoold signal`: raises a uWSGI signal in a daemon, through its socket. @returns the exit code */
export async function signal(
  [number = '']: readonly string[],
  { socket, ini }: SignalOptions,
): Promise<number> {
  if (!/^\d{1,3}$/.test(number))
    throw new SpooldError('USAGE', `expected a signal number from 0 to 255, got ${describe(number)}`)
  if ((socket === undefined) === (ini === undefined))
    throw new SpooldError('USAGE', 'say where: --socket ADDRESS or --ini FILE')
  await sendSignal(Number(number), { socket: socket ?? socketOfIni(ini ?? '') })
  return 0
}

/** The first socket of a configuration. The other options, valid or not, concern only the daemon. */
function socketOfIni(file: string): string {
  const config = readConfig({ environment: {}, commandLine: [], files: [file], version: readVersion() })
  const [socket] = resolveOptions(config).options.socket
  if (socket !== undefined) return socket
  const [problem] = config.problems.errors
  const because = problem === undefined ? '' : `: ${problem.message}`
  throw new SpooldError('CONFIG_INVALID', `${file} names no socket${because}; add socket = ADDRESS`)
}
