import type { Claims } from '../engines/claims.js'
import type { Engine } from '../engines/open-engine.js'
import type { WorkerOptions } from '../ipc/messages.js'
import { handlerNames, type LoadedHandlers } from './handlers.js'

/** Opens the tasks of a spool for one worker. */
export function openClaims(
  engine: Engine,
  options: WorkerOptions,
  termsOf: LoadedHandlers['termsOf'],
): Promise<Claims> {
  const { ordered, strictNames, chain } = options
  return engine.claims({
    ...options,
    termsOf,
    rules: { ordered, strictNames },
    handlers: handlerNames(chain),
  })
}
