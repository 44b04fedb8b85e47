import type { Options } from '../../formats/config/option-table.js'
import type { PushOptions } from '../exporter/messages.js'
import { type PushTarget, parseHostPort, parsePush } from '../net/stats-push.js'

/** What the exporter pushes, and where to. */
export function pushOptions(options: Options): PushOptions[] {
  const { statsPush, carbon } = options
  const pushes = statsPush.flatMap(text => pushTo(text, options))
  return carbon.length === 0 ? pushes : [...pushes, carbonPush(options)]
}

/** @returns none for a destination that only uWSGI knows; the check of the configuration has said so */
function pushTo(text: string, options: Options): PushOptions[] {
  const target = knownPush(text)
  if (target === undefined) return []
  const { statsPusherDefaultFreqMs, statsNoCores, statsMinified, statsdNoWorkers, statsdAllGauges } = options
  const shared = { everyMs: statsPusherDefaultFreqMs, withCores: !statsNoCores }
  if (target.kind === 'file')
    return [{ ...shared, ...target, everyMs: target.everyMs ?? shared.everyMs, isMinified: statsMinified }]
  return [{ ...shared, ...target, withWorkers: !statsdNoWorkers, allGauges: statsdAllGauges }]
}

function knownPush(text: string): PushTarget | undefined {
  try {
    return parsePush(text)
  } catch {
    return undefined
  }
}

/** The defaults of uWSGI's plugin; its id is the name of the first socket. */
function carbonPush(options: Options): PushOptions {
  const { carbon, socket, carbonFreqMs, carbonTimeoutMs, carbonRoot, carbonNoWorkers } = options
  return {
    kind: 'carbon',
    withCores: false,
    servers: carbon.map(parseHostPort),
    everyMs: carbonFreqMs,
    timeoutMs: carbonTimeoutMs,
    id: options.carbonId ?? (socket[0] ?? 'spoold').replaceAll('.', '_'),
    root: carbonRoot,
    withWorkers: !carbonNoWorkers,
    hostnameDots: options.carbonHostnameDots,
    idleAverage: options.carbonIdleAvg,
  }
}
