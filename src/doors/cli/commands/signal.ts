import { describe, SpooldError } from '../../../base/errors.js'
import { sendSignal } from '../../../engines/client/send-signal.js'
import type { CommandContext } from '../context.js'
import { readIni } from '../places.js'

interface SignalOptions {
  readonly socket?: string
  readonly ini?: string
}

/** `spoold signal`: raises a uWSGI signal in a daemon, through its socket. @returns the exit code */
export async function signal(
  [number = '']: readonly string[],
  { socket, ini }: SignalOptions,
  context: CommandContext,
): Promise<number> {
  if (!/^\d{1,3}$/.test(number))
    throw new SpooldError('USAGE', `expected a signal number from 0 to 255, got ${describe(number)}`)
  if ((socket === undefined) === (ini === undefined))
    throw new SpooldError('USAGE', 'say where: --socket ADDRESS or --ini FILE')
  const [first = ''] = ini === undefined ? [] : readIni(ini, context, 'socket').options.socket
  await sendSignal(Number(number), { socket: socket ?? first })
  return 0
}
