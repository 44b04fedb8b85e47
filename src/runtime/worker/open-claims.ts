import type { Claims } from '../../engines/claims.js'
import { type Engine, openEngine } from '../../engines/open-engine.js'
import { Hide } from '../../formats/protocol/hide.js'
import { isRedisAddress, nameOfRedis } from '../../formats/protocol/redis-address.js'
import type { WorkerOptions } from '../ipc/messages.js'
import { handlerNames, type LoadedHandlers } from './handlers.js'

/** The engine of a worker's spool. Its targets have the passwords of spools on Redis. */
export function engineOf({ spool, targets }: WorkerOptions): Engine {
  for (const { directory } of targets) if (isRedisAddress(directory)) nameOfRedis(directory)
  return openEngine(spool)
}

/** Opens the tasks of a spool for one worker. */
export function openClaims(
  engine: Engine,
  options: WorkerOptions,
  termsOf?: LoadedHandlers['termsOf'],
  tell?: (task: string, message: string) => void,
): Promise<Claims> {
  const { ordered, strictNames, chain } = options
  return engine.claims({
    ...options,
    ...{ termsOf, tell },
    rules: { ordered, strictNames },
    handlers: handlerNames(chain, new Hide(options.hide)),
    forwards: chain.some(({ kind }) => kind === 'forward'),
  })
}
