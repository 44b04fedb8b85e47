import type { WorkerClaims } from '../../engines/claims.js'
import { type ClaimsOptions, type Engine, openEngine } from '../../engines/open-engine.js'
import { Hide } from '../../formats/protocol/hide.js'
import { isRedisAddress, nameOfRedis } from '../../formats/protocol/redis-address.js'
import type { HandlerSpec, WorkerOptions } from '../ipc/messages.js'

/** Returns the engine of a worker's spool. The targets are read first, because they have the passwords of spools on Redis. */
export function engineOf({ spool, targets }: WorkerOptions): Engine {
  for (const { directory } of targets) if (isRedisAddress(directory)) nameOfRedis(directory)
  return openEngine(spool)
}

/** Opens the tasks of a spool for one worker. @param ofHandlers what the worker's handlers say of tasks, and are told */
export function openClaims(
  engine: Pick<Engine, 'claims'>,
  options: WorkerOptions,
  ofHandlers?: Pick<ClaimsOptions, 'termsOf' | 'tell' | 'died'>,
): Promise<WorkerClaims> {
  const { ordered, strictNames, chain } = options
  return engine.claims({
    ...options,
    ...ofHandlers,
    rules: { ordered, strictNames },
    handlers: handlerNames(chain, new Hide(options.hide)),
    forwards: chain.some(({ kind }) => kind === 'forward'),
  })
}

/** Returns the names of the handlers of the chain, for readers of a dead letter. */
export function handlerNames(chain: readonly HandlerSpec[], hide = new Hide([])): string[] {
  return chain.flatMap(link => {
    if (link.kind === 'host') return link.host.files
    if (link.kind === 'given') return link.names
    if (link.kind === 'forward') return [link.to]
    return link.kind === 'exec' ? [hide.configured(link.command)] : [link.file]
  })
}
