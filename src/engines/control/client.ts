import { connect, type Socket } from 'node:net'
import { constants } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { errnoOf, messageOf } from '../../base/errors.js'
import { displayName, toByteString } from '../../base/task/ref.js'
import { type ControlReply, formatRequest, parseReply } from '../../formats/control/protocol.js'
import { systemError } from '../../system/calls.js'
import { lstatSync, readdirSync } from '../../system/files/anchored-path.js'
import { STATE_DIRECTORY } from '../spool/names.js'
import { findState } from '../spool/state-directory.js'
import { LineBuffer } from './line-buffer.js'
import { isControlName } from './names.js'

/** The maximum size of a reply or an event: a snapshot of a hundred spools, each with a hundred names, has a third of this. */
const MAX_REPLY_BYTES = 8 * 1024 * 1024
/** How long a daemon may take for its answer. */
const ANSWER_MS = 5000
/** Where several daemons are asked, one that is busy for longer than this is not waited for. */
const SOON_MS = 1000
/** More sockets of a spool than this are not asked, because whoever owns the spool can make any number. */
const MOST_SOCKETS = 32
/** A client that is turned away tries again after half of this time or more, for `TURNED_AWAY_MS` altogether. */
const AGAIN_MS = 200
const TURNED_AWAY_MS = 5000

/** Why a daemon could not be asked, or refused. */
class ControlFailure extends Error {
  /** A code of the protocol, or `unreachable`: no answer, or none that can be understood. */
  readonly code: string

  /** True if the daemon has not read the request, because other clients took its turn, or the daemon ended. */
  readonly isUnread: boolean

  constructor(code: string, message: string, isUnread = false) {
    super(message)
    this.code = code
    this.isUnread = isUnread
  }
}

interface AskOptions {
  /** How long the daemon may take for its whole answer; with `silenceMs`, for one line of the answer. */
  readonly timeoutMs?: number
  /** For a verb that streams without an end: the longest time without anything between two lines. Infinity: no limit. */
  readonly silenceMs?: number
  /** Called for each event of a verb that streams. */
  event?(event: unknown): void
  /** Ends the connection. The request then fails as `unreachable`. */
  readonly signal?: AbortSignal
}

/** The sockets that were found in spools: one for each daemon that was met. */
const found = new Set<string>()

/**
 * Returns the sockets in a spool on which daemons may listen, as far as this process may see them. A dead daemon may have left
 * one.
 *
 * @param spool its real path
 * @throws SpooldError SPOOL_UNUSABLE, if `.spoold` belongs to somebody else than the spool; EACCES, if it is closed to us
 */
export function controlSocketsOf(spool: string): string[] {
  const state = findState(toByteString(spool))
  if (state === undefined) return []
  const paths = readdirSync(state)
    .filter(isControlName)
    .sort()
    .slice(0, MOST_SOCKETS)
    .filter(name => isOwners(state, name))
    .map(name => join(spool, STATE_DIRECTORY, name))
  for (const path of paths) found.add(path)
  return paths
}

/** False for a socket of another user, which may have been linked there, so that we write to it. */
function isOwners(state: string, name: string): boolean {
  const stats = lstatSync(`${state}/${name}`)
  return stats?.isSocket() === true && stats.uid === lstatSync(`${state}/.`)?.uid
}

/**
 * Connects to a socket. One that was found in a spool is looked up in the open `.spoold` at this moment: its path may be longer than
 * a socket address, and lead elsewhere by now. One that a person has named may belong to anybody.
 *
 * @throws as `controlSocketsOf`; ENOENT
 */
export function connectTo(path: string): Socket {
  if (!found.has(path)) return connect(path)
  const [state, name] = [findState(toByteString(dirname(dirname(path)))), basename(path)]
  if (state === undefined || !isOwners(state, name))
    throw systemError(-constants.errno.ENOENT, 'connect', path)
  const at = `${state}/${name}`
  return connect(at).once('error', error => {
    error.message = error.message.replace(at, path)
  })
}

/**
 * Asks one daemon.
 *
 * @returns what the verb returns, as it came: the caller has to check it
 * @throws ControlFailure
 */
export async function askDaemon(
  path: string,
  verb: string,
  args: object,
  options: AskOptions = {},
): Promise<unknown> {
  for (const giveUpAt = performance.now() + TURNED_AWAY_MS; ; )
    try {
      return await askOnce(path, verb, args, options)
    } catch (error) {
      const mayTryAgain =
        error instanceof ControlFailure && error.isUnread && options.signal?.aborted !== true
      if (!mayTryAgain || performance.now() > giveUpAt) throw error
      await sleep(AGAIN_MS * (0.5 + Math.random() / 2))
    }
}

/**
 * Asks all daemons of a spool.
 *
 * @param spool its real path, a byte string
 * @param sockets where they listen; undefined: in the spool
 * @param read reads an answer as it came; throws if it does not answer this question
 * @returns the answers of the daemons that live; none at all if one of them cannot answer
 */
export async function askDaemons<T>(
  spool: string,
  sockets: readonly string[] | undefined,
  verb: string,
  args: object,
  read: (answer: unknown) => T,
): Promise<T[]> {
  const path = displayName(spool)
  const ask = async (socket: string): Promise<T[]> => {
    try {
      return [read(await askDaemon(socket, verb, { spool: path, ...args }, { timeoutMs: SOON_MS }))]
    } catch (error) {
      if (messageOf(error).includes('ECONNREFUSED')) return [] // the daemon is dead
      throw error
    }
  }
  try {
    return (await Promise.all((sockets ?? controlSocketsOf(path)).map(ask))).flat()
  } catch {
    return [] // also if only the spool's user may use the control socket
  }
}

/**
 * Asks at several sockets at once.
 *
 * @returns the answers, and why one of the others did not answer; a socket that refuses is no fault, because its daemon is dead
 */
export async function askEach<T>(
  sockets: readonly string[],
  ask: (path: string) => Promise<T>,
): Promise<{
  readonly answers: ReadonlyArray<{ readonly path: string; readonly answer: T }>
  readonly fault: string | undefined
}> {
  const results = await Promise.allSettled(sockets.map(async path => ({ path, answer: await ask(path) })))
  const faults = results.flatMap(result => (result.status === 'rejected' ? [messageOf(result.reason)] : []))
  return {
    answers: results.flatMap(result => (result.status === 'fulfilled' ? [result.value] : [])),
    fault: faults.find(fault => !fault.includes('ECONNREFUSED')),
  }
}

function askOnce(path: string, verb: string, args: object, options: AskOptions): Promise<unknown> {
  const { timeoutMs = ANSWER_MS, silenceMs, event, signal } = options
  const socket = connectTo(path)
  let deadline: NodeJS.Timeout | undefined
  let lastLook: NodeJS.Immediate | undefined
  return new Promise<unknown>((resolve, reject) => {
    const fail = (code: string, message: string, isUnread?: boolean) =>
      reject(new ControlFailure(code, message, isUnread))
    const expect = (ms: number) => {
      clearTimeout(deadline)
      clearImmediate(lastLook)
      if (ms === Number.POSITIVE_INFINITY) return
      const isOver = () => fail('unreachable', `no answer within ${ms / 1000} s`)
      // this process may be late, so what has come is read first
      deadline = setTimeout(() => (lastLook = setImmediate(isOver)), ms)
    }
    expect(silenceMs ?? timeoutMs)
    signal?.addEventListener('abort', () => socket.destroy(), { once: true })
    // a unix socket reports a reset if it is closed before everything in it is read
    const isReset = (error: unknown) => ['ECONNRESET', 'EPIPE'].includes(errnoOf(error) ?? '')
    let isRead = false
    socket.once('error', error => fail('unreachable', messageOf(error), !isRead && isReset(error)))
    socket.once('close', () => fail('unreachable', 'the connection was closed without an answer'))
    socket.once('connect', () => socket.write(formatRequest({ id: 1, verb, args })))
    const take = (reply: ControlReply | undefined) => {
      isRead = true
      if (reply === undefined) return fail('unreachable', 'a program other than spoold answered')
      if ('event' in reply) return event?.(reply.event)
      if ('error' in reply) return fail(reply.error.code, reply.error.message)
      resolve(reply.ok)
    }
    const lines = new LineBuffer(MAX_REPLY_BYTES)
    let isInLine = false
    socket.on('data', chunk => {
      lines.add(chunk)
      let line = lines.next()
      const isProgress = !isInLine || line !== undefined // a single byte now and then is no progress
      for (; typeof line === 'string'; line = lines.next()) take(parseReply(line))
      if (line === null) return fail('unreachable', `its answer has more than ${MAX_REPLY_BYTES} bytes`)
      isInLine = lines.isPartial
      if (silenceMs !== undefined && isProgress) expect(isInLine ? timeoutMs : silenceMs)
    })
  }).finally(() => {
    clearTimeout(deadline)
    clearImmediate(lastLook)
    socket.destroy()
  })
}
