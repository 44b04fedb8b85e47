import { describe, SpooldError } from '../../base/errors.js'
import type { Request } from '../../base/task/request.js'
import { readAt } from './at.js'
import { HEADER_BYTES, MODIFIER2_OFFSET } from './header.js'
import { encodePacket, type VarPair } from './packet.js'
import { lastValue, parseVars, toPairs, type Vars } from './vars.js'

/** A spool request from the network. */
export interface WireRequest {
  /** The request without its body, which follows the packet. */
  readonly request: Request
  /** The spool that the request names; undefined means the first one. */
  readonly spooler: Buffer | undefined
  /** The size of the body that follows. */
  readonly bodyBytes: number
}

/** The key that announces a body. It is part of the transfer, not of the task. */
export const BODY_LENGTH_KEY = 'CONTENT_LENGTH'

const BODY_KEY = Buffer.from('body')
const AT_KEY = Buffer.from('at')

/**
 * Reads a packet as uWSGI's workers do (core/spooler.c, uwsgi_spool_request): the last `spooler`, `priority` and `at`
 * count, empty ones do not, and all of them stay in the task. `body` is a key like any other here.
 *
 * @param packet becomes part of the request: the bytes of most tasks are stored unchanged
 * @throws SpooldError PACKET_MALFORMED if the block is not a list of pairs; uWSGI would store it
 * @throws SpooldError REQUEST_INVALID for an impossible length or time
 */
export function requestFromPacket(packet: Buffer): WireRequest {
  const vars = parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length)
  if ('fault' in vars) throw new SpooldError('PACKET_MALFORMED', vars.fault)
  const { at, ...magic } = magicOf(vars)
  const request = { packet: storedPacket(packet, vars, at), ...magic }
  return { request, spooler: spoolerOf(vars), bodyBytes: bodyBytesOf(vars) }
}

/**
 * Reads a dictionary from a program in the same way, except that its key `body` is the body.
 *
 * @throws SpooldError REQUEST_INVALID
 */
export function requestFromPairs(pairs: readonly VarPair[]): Omit<WireRequest, 'bodyBytes'> {
  const isBody = ([key]: VarPair) => key.equals(BODY_KEY)
  const given = encodePacket(pairs.filter(pair => !isBody(pair)))
  const vars = parseVars(given.toString('latin1'), HEADER_BYTES, given.length)
  if ('fault' in vars) throw new SpooldError('REQUEST_INVALID', vars.fault)
  const body = pairs.findLast(isBody)?.[1]
  const { at, ...magic } = magicOf(vars)
  const request = {
    packet: storedPacket(given, vars, at),
    ...magic,
    ...(body && body.length > 0 ? { body } : {}),
  }
  return { request, spooler: spoolerOf(vars) }
}

/** Reads the magic keys. @returns also `at` as it is to be stored */
function magicOf(vars: Vars): Pick<Request, 'atSeconds' | 'priority'> & { readonly at: string | undefined } {
  const given = lastValue(vars, 'at')
  const at = given === undefined ? undefined : readAt(given)
  const priority = lastValue(vars, 'priority')
  return {
    at: at?.text,
    ...(at?.seconds === undefined ? {} : { atSeconds: at.seconds }),
    ...(priority === undefined || priority === '' ? {} : { priority }),
  }
}

function spoolerOf(vars: Vars): Buffer | undefined {
  const spooler = lastValue(vars, 'spooler')
  return spooler === undefined || spooler === '' ? undefined : Buffer.from(spooler, 'latin1')
}

/** Returns the packet to be stored: without keys of the transfer, and with a time as a number. @param at as it is to be stored */
function storedPacket(packet: Buffer, vars: Vars, at: string | undefined): Buffer {
  packet[MODIFIER2_OFFSET] = 0
  if (lastValue(vars, BODY_LENGTH_KEY) === undefined && lastValue(vars, 'at') === at) return packet
  const pairs = toPairs(vars).filter(([key]) => key.toString('latin1') !== BODY_LENGTH_KEY)
  const last = pairs.findLastIndex(([key]) => key.equals(AT_KEY))
  return encodePacket(
    at === undefined ? pairs : pairs.map((pair, i) => (i === last ? [pair[0], Buffer.from(at)] : pair)),
  )
}

function bodyBytesOf(vars: Vars): number {
  const length = lastValue(vars, BODY_LENGTH_KEY) ?? ''
  if (length !== '' && !/^[0-9]{1,15}$/.test(length))
    throw new SpooldError(
      'REQUEST_INVALID',
      `${BODY_LENGTH_KEY} must be a number of bytes, got ${describe(length)}`,
      {
        details: { key: BODY_LENGTH_KEY, got: length },
      },
    )
  return Number(length)
}
