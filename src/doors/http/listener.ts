import type { Socket } from 'node:net'
import { formatAddress, parseAddress } from '../../formats/protocol/address.js'
import { Opener } from '../../system/opener.js'
import { KeptOpen } from '../net/kept-open.js'
import { listen } from '../net/listen.js'

export interface ListenerOptions {
  /** The address as the option has it: host:port, /path/to/socket or @abstract. */
  readonly address: string
  /** The mode of a unix socket; null: as the umask has it. */
  readonly mode: number | null
}

interface ListenerContext {
  accept(socket: Socket): void
  listening(address: string): void
  trouble(message: string): void
}

const BACKLOG = 128

/** Listens, and tries again as long as that fails, because what is published here is no reason to keep tasks waiting. */
export function keepListening(
  { address, mode }: ListenerOptions,
  { accept, listening, trouble }: ListenerContext,
): KeptOpen {
  const settings = { backlog: BACKLOG, mode, owner: null, files: new Opener(null), accept }
  const kept = new KeptOpen({
    async open() {
      const opened = await listen(parseAddress(address), settings)
      listening(formatAddress(opened.address))
      return {
        isReachable: () => true, // even if its file was removed: it comes back with the next start
        async close() {
          opened.close()
          await opened.removeFile()
        },
      }
    },
    missing: (_, why) => trouble(why),
  })
  void kept.serve([address])
  return kept
}
