import { SpooldError } from '../../base/errors.js'
import { OK, type Outcome, RELEASE } from '../../base/task/outcome.js'
import type { Request } from '../../base/task/request.js'
import type { Claim } from '../../engines/claims.js'
import type { AwayListener, Forwarded } from '../../engines/forwarder.js'
import { openEngine } from '../../engines/open-engine.js'
import { encodePacket } from '../../formats/protocol/packet.js'
import { toPairs } from '../../formats/protocol/vars.js'
import type { HandlerCall } from './handler-task.js'

/**
 * Returns a handler that passes tasks on to a spool.
 *
 * @param away told when that spool cannot be reached, and when it can be reached again
 */
export async function openForward(to: string, away: AwayListener): Promise<HandlerCall> {
  const forwarder = await openEngine(to).forwarder?.(away)
  if (forwarder === undefined) throw new SpooldError('CONFIG_INVALID', `${to}: no tasks are forwarded there`)
  return run => {
    const over = new AbortController()
    run.whenStopped(() => over.abort())
    run.whenCancelled(() => over.abort())
    const { claim } = run
    const task = {
      file: claim.path,
      bodyBytes: claim.bodyBytes,
      read: () => requestOf(claim),
      over: over.signal,
    }
    return forwarder.forward(task).then(outcomeOf)
  }
}

/** Returns a request for the same task. Its packet is encoded as it was. */
function requestOf(claim: Claim): Request {
  const body = claim.readBody()
  return {
    packet: encodePacket(toPairs(claim.vars)),
    ...(body === undefined ? {} : { body }),
    ...(claim.priority === null ? {} : { priority: String(claim.priority) }),
    ...(claim.dueAtMs > Date.now() ? { atSeconds: claim.dueAtMs / 1000 } : {}),
  }
}

function outcomeOf(forwarded: Forwarded): Outcome {
  switch (forwarded.kind) {
    case 'stored':
      return OK
    case 'away':
      return RELEASE
    case 'refused':
      return { kind: 'bury', detail: `it cannot be forwarded: ${forwarded.why}` }
    case 'failed':
      return { kind: 'error', detail: forwarded.why }
  }
}
