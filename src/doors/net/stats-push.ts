import { describe, SpooldError } from '../../base/errors.js'
import { parseKeyvals } from '../../base/keyval.js'
import { parseAddress } from '../../formats/protocol/address.js'

/** Where `stats-push` sends statistics. */
export type PushTarget =
  | { readonly kind: 'statsd'; readonly host: string; readonly port: number; readonly prefix: string }
  | {
      readonly kind: 'file'
      readonly path: string
      readonly separator: string
      /** Null: `stats-pusher-default-freq`. */
      readonly everyMs: number | null
    }

/** The defaults of uWSGI's plugins. */
const STATSD_PREFIX = 'uwsgi'
const FILE = { path: 'uwsgi.stats', separator: '\n\n' }

/**
 * Parses `statsd:host:port[,prefix]` or `file:path=…,separator=…,freq=SECONDS` (plugins/stats_pusher_statsd, stats_pusher_file).
 *
 * @throws SpooldError ADDRESS_INVALID; CONFIG_INVALID for a destination that only uWSGI knows
 */
export function parsePush(text: string): PushTarget {
  const cut = text.indexOf(':')
  const kind = cut < 0 ? text : text.slice(0, cut)
  const rest = cut < 0 ? '' : text.slice(cut + 1)
  if (kind === 'statsd') return statsdTarget(rest)
  if (kind === 'file') return fileTarget(rest)
  throw new SpooldError('CONFIG_INVALID', `expected statsd:… or file:…, got ${describe(text)}`)
}

/** Parses `host:port`, the address of a carbon server. @throws SpooldError ADDRESS_INVALID */
export function parseHostPort(text: string): { readonly host: string; readonly port: number } {
  const address = parseAddress(text)
  if (address.kind === 'tcp' && address.host !== '') return address
  throw new SpooldError('ADDRESS_INVALID', `expected host:port, got ${describe(text)}`)
}

function statsdTarget(text: string): PushTarget {
  const comma = text.indexOf(',')
  const { host, port } = parseHostPort(comma < 0 ? text : text.slice(0, comma))
  return { kind: 'statsd', host, port, prefix: comma < 0 ? STATSD_PREFIX : text.slice(comma + 1) }
}

function fileTarget(text: string): PushTarget {
  const values = new Map(parseKeyvals(text).map(({ key, value = '' }) => [key, value]))
  const seconds = Number(values.get('freq') ?? 0)
  return {
    kind: 'file',
    path: values.get('path') ?? FILE.path,
    separator: values.get('separator') ?? FILE.separator,
    everyMs: seconds > 0 ? seconds * 1000 : null,
  }
}
