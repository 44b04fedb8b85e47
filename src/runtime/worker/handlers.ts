import { toByteString } from '../../base/task/ref.js'
import type { PeriodicTask } from '../../base/task/schedule.js'
import { type Delivery, FIRST_DELAY_MS, type TermsOrPark } from '../../base/task/terms.js'
import { isRedisAddress } from '../../formats/protocol/redis-address.js'
import type { Vars } from '../../formats/protocol/vars.js'
import type { HostOptions, WorkerMessage, WorkerOptions } from '../ipc/messages.js'
import { Registry } from '../tasks/registry.js'
import { checkSettings, termsOf } from '../tasks/settings.js'
import { callFunction, type HandlerCall } from './handler-task.js'
import type { Host, HostCallbacks, HostStart } from './hosts/host.js'
import { type LoadedHandler, loadHandler } from './load-module.js'
import { NamedTasks } from './named-tasks.js'
import { handlerNames } from './open-claims.js'
import type { Programs } from './programs.js'

/** The handlers of a worker, loaded and started. */
export interface LoadedHandlers {
  readonly hosts: readonly Host[]
  /** The host, if all handlers are in one host and run one task at a time: it takes tasks in batches. */
  readonly only: Host | undefined
  /** How many tasks the handlers run at a time. */
  readonly concurrency: number
  readonly performers: readonly HandlerCall[]
  /** The strictest delivery that a JavaScript module requests, because any of the modules may run a task. */
  readonly delivery: Delivery | undefined
  /** Returns what the handlers say of a named task. Undefined: they say nothing of any task. */
  readonly termsOf: ((vars: Vars) => TermsOrPark) | undefined
  /** The handlers' tasks that the daemon itself schedules. */
  readonly periodic: readonly PeriodicTask[]
  /** The programs of `spooler-exec`. */
  readonly programs: Programs | undefined
}

/** The options on which loading depends. In a rehearsal some of them are unknown. */
type Loading = Pick<WorkerOptions, 'chain' | 'spool' | 'chdir' | 'startTimeoutMs'> &
  Partial<Pick<WorkerOptions, 'locks' | 'concurrency' | 'namespace' | 'policy' | 'hostSettings'>>

/**
 * Loads the handlers. The code for each kind is imported only if it is used, because every worker pays for it at its
 * start.
 *
 * @throws SpooldError HANDLER_UNLOADABLE
 */
export async function openHandlers(
  options: Loading,
  callbacksOf: (host: Host) => HostCallbacks,
  send: (message: WorkerMessage) => void,
  given: readonly LoadedHandler[] = [],
): Promise<LoadedHandlers> {
  const { chain } = options
  const hosts: Host[] = []
  const loaded: LoadedHandler[] = []
  const performers: HandlerCall[] = []
  const named = new NamedTasks()
  let isNamedOnly = true
  let programs: Programs | undefined
  const isOnly = chain.length === 1 && chain[0]?.kind === 'host'
  for (const link of chain) {
    send({ type: 'loading', name: handlerNames([link]).join(', ') })
    switch (link.kind) {
      case 'host': {
        const { Host } = await import('./hosts/host.js')
        const host = await Host.start(settled(link.host, options), callbacksOf)
        hosts.push(host)
        for (const { name, maxRetries, maxConcurrency, queue, periodic, place } of host.declared) {
          const limit = maxRetries < 0 ? Number.POSITIVE_INFINITY : maxRetries
          const most = maxConcurrency ?? undefined
          named.declare(
            termsOf(name, { maxRetries: limit, maxConcurrency: most, backoff: 'exponential' }),
            place,
          )
          if (periodic === null) continue
          checkSettings(`task ${name} (${place})`, periodic, 'task')
          named.repeat(`task ${name} (${place})`, name, { ...periodic, queue })
        }
        const isBeside = isOnly && (options.concurrency ?? 1) > 1 && runsCoroutines(host)
        if (isOnly && !isBeside) break
        const { callHost } = await import('./hosts/call-host.js')
        performers.push(callHost(host, isBeside))
        break
      }
      case 'given':
      case 'javascript': {
        const modules = link.kind === 'given' ? given : [await loadHandler(link.file)]
        const registries = modules.flatMap(module => module.registries)
        if (options.namespace !== undefined) standFor(options.namespace, registries)
        if (registries.length > 0) performers.push(named.link(registries))
        // if a file has two names, or two files export one function, the function is called once
        const before = new Set(loaded.map(({ handler }) => handler))
        loaded.push(...modules)
        const handlers = modules.flatMap(({ handler }) => (before.has(handler) ? [] : (handler ?? [])))
        if (handlers.length === 0) continue
        performers.push(...handlers.map(callFunction))
        break
      }
      case 'forward': {
        const { openForward } = await import('./forward.js')
        const told = (why?: string) => send({ type: 'log', name: link.to, message: saysAway(why) })
        performers.push(await openForward(link.to, told))
        break
      }
      case 'exec': {
        const { callProgram } = await import('./call-program.js')
        const { Programs } = await import('./programs.js')
        programs ??= new Programs(options.locks === 'lockfile')
        performers.push(callProgram(link, send, programs))
      }
    }
    isNamedOnly = false
  }
  const only = performers.length === 0 ? hosts[0] : undefined
  return {
    hosts,
    only,
    concurrency: only !== undefined ? 1 : (options.concurrency ?? 1),
    performers,
    delivery: strictestDelivery(loaded),
    termsOf: named.isEmpty && !isNamedOnly ? undefined : named.terms(isNamedOnly),
    periodic: named.periodic,
    programs,
  }
}

function saysAway(why: string | undefined): string {
  return why === undefined
    ? 'tasks are forwarded again'
    : `tasks wait here until they can be forwarded: ${why}`
}

/** Gives registries the namespace of their application, whose object does this in another process. */
function standFor(namespace: string, registries: readonly Registry[]): void {
  const application = new Registry({ namespace })
  for (const each of registries) if (each.parent === undefined) application.use(each, 'the application')
}

/** True if a task of the host is a coroutine. The host decides by the same rule (src/hosts/python/spoold_host/named.py). */
function runsCoroutines(host: Host): boolean {
  return host.declared.some(({ isAsync }) => isAsync === true)
}

function strictestDelivery(loaded: readonly LoadedHandler[]): Delivery | undefined {
  const named = loaded.flatMap(({ delivery }) => delivery ?? [])
  return named.includes('at-most-once') ? 'at-most-once' : named[0]
}

/** Returns where signals are handled: as in uWSGI the spool, whatever `spooler-chdir` says, or on Redis, where tasks start. */
export function homeOf({ spool, chdir }: Pick<Loading, 'spool' | 'chdir'>): string {
  return isRedisAddress(spool) ? (chdir ?? spool) : spool
}

/** Adds the settings of this worker, and those of all hosts, to those of the plan. */
function settled(
  host: HostOptions,
  { spool, chdir, startTimeoutMs, concurrency = 1, policy, hostSettings = [] }: Loading,
): HostStart {
  const at = chdir === null ? [] : [['chdir', toByteString(chdir)] as const]
  const home = toByteString(homeOf({ spool, chdir }))
  const place = [['spool', toByteString(spool)] as const, ['home', home] as const, ...at]
  const many = concurrency > 1 ? [['concurrency', String(concurrency)] as const] : []
  // for hosts that tell a task the time of its next run before the worker decides on it
  const delays = policy === undefined ? [] : [policy.delayMs ?? FIRST_DELAY_MS, policy.capMs]
  const backoff = delays.map(ms => ['backoff-ms', String(ms)] as const)
  return {
    ...host,
    startTimeoutMs,
    settings: [...place, ...many, ...backoff, ...hostSettings, ...host.settings],
  }
}
