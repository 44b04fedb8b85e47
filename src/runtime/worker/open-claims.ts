import type { TermsOrPark } from '../../base/task/terms.js'
import type { Claims, TellDeath } from '../../engines/claims.js'
import { type Engine, openEngine } from '../../engines/open-engine.js'
import { Hide } from '../../formats/protocol/hide.js'
import { isRedisAddress, nameOfRedis } from '../../formats/protocol/redis-address.js'
import type { Vars } from '../../formats/protocol/vars.js'
import type { HandlerSpec, WorkerOptions } from '../ipc/messages.js'

/** The engine of a worker's spool. Its targets have the passwords of spools on Redis. */
export function engineOf({ spool, targets }: WorkerOptions): Engine {
  for (const { directory } of targets) if (isRedisAddress(directory)) nameOfRedis(directory)
  return openEngine(spool)
}

/** Opens the tasks of a spool for one worker. */
export function openClaims(
  engine: Engine,
  options: WorkerOptions,
  termsOf?: (vars: Vars) => TermsOrPark,
  tell?: (task: string, message: string) => void,
  died?: TellDeath,
): Promise<Claims> {
  const { ordered, strictNames, chain } = options
  return engine.claims({
    ...options,
    ...{ termsOf, tell, died },
    rules: { ordered, strictNames },
    handlers: handlerNames(chain, new Hide(options.hide)),
    forwards: chain.some(({ kind }) => kind === 'forward'),
  })
}

/** The handlers of the chain by name, for readers of a dead letter. */
export function handlerNames(chain: readonly HandlerSpec[], hide = new Hide([])): string[] {
  return chain.flatMap(link => {
    if (link.kind === 'host') return link.host.files
    if (link.kind === 'given') return link.names
    if (link.kind === 'forward') return [link.to]
    return link.kind === 'exec' ? [hide.configured(link.command)] : [link.file]
  })
}
