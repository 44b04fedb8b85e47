import type { Emitter } from '../../base/events/emitter.js'
import type { Options } from '../../formats/config/option-table.js'
import { parseAddress } from '../../formats/protocol/address.js'
import { keysOf } from '../../formats/protocol/hide.js'
import { isRedisAddress, redisAddressOf } from '../../formats/protocol/redis-address.js'
import type { DashboardOptions, FromDashboard, ToDashboard } from '../dashboard/messages.js'
import { parseDashboard } from '../net/dashboard-address.js'
import { AsideProcess } from './aside-process.js'

interface DashboardContext {
  readonly events: Emitter
  readonly log: { readonly fd: number }
  /** Resolves a path of the configuration. */
  resolve(path: string): string
}

/** The process with the dashboard, while the configuration asks for one. It is never root: what it reads and changes belongs to the user of the spools. */
export class DashboardProcess {
  readonly #context: DashboardContext
  readonly #process: AsideProcess<DashboardOptions, FromDashboard, ToDashboard>

  constructor(context: DashboardContext) {
    this.#context = context
    const { events, log } = context
    const trouble = (message: string) => events.emit('dashboard-trouble', { message })
    this.#process = new AsideProcess<DashboardOptions, FromDashboard, ToDashboard>({
      name: 'dashboard',
      log,
      open: options => ({ type: 'open', options }),
      hear(message) {
        if (message.type === 'trouble') trouble(message.message)
        else events.emit('dashboard-listening', { address: message.address })
      },
      trouble,
    })
  }

  /**
   * Puts a configuration into service.
   *
   * @param spools those that the daemon runs: real paths, and names on Redis
   * @param controls the directories with its control sockets
   */
  serve(options: Options, spools: readonly string[], controls: readonly string[]): Promise<void> {
    const wanted = this.#wanted(options, spools, controls)
    if (wanted === undefined || process.geteuid?.() !== 0) return this.#process.serve(wanted)
    const message = 'the dashboard is left closed, because it does not run as root: set uid'
    this.#context.events.emit('dashboard-trouble', { message })
    return this.#process.serve(undefined)
  }

  /** Resolves when it is gone. */
  stop(): Promise<void> {
    return this.#process.stop()
  }

  #wanted(
    options: Options,
    spools: readonly string[],
    controls: readonly string[],
  ): DashboardOptions | undefined {
    const { spoolerDashboard, spoolerDashboardTokens: tokens, spoolerDashboardEnqueue } = options
    if (spoolerDashboard.length === 0) return undefined
    const at = (path: string) => this.#context.resolve(path)
    const addresses = spoolerDashboard.map(text => {
      const parsed = parseDashboard(text)
      return parseAddress(parsed.address).kind === 'unix'
        ? { ...parsed, address: at(parsed.address) }
        : parsed
    })
    return {
      addresses,
      tokensFile: tokens === null ? null : at(tokens),
      allowsNewWork: spoolerDashboardEnqueue,
      hide: keysOf(options.spoolerHide),
      spools,
      redisAddresses: spools.filter(isRedisAddress).map(redisAddressOf),
      controls,
      pid: process.pid,
    }
  }
}
