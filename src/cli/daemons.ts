import { realpathSync } from 'node:fs'
import { messageOf } from '../base/errors.js'
import { askDaemon, controlSocketsOf } from '../control/client.js'
import { isRedisAddress } from '../protocol/redis-address.js'
import { readDaemonFacts } from '../stats/read-snapshot.js'
import type { DaemonFacts } from '../stats/snapshot.js'

/** A daemon that answers. */
export interface LiveDaemon {
  /** The path of a control socket. */
  readonly path: string
  /** The directory in which it was found. */
  readonly directory: string
  readonly facts: DaemonFacts
}

interface FoundDaemons {
  /** Each once, however many of the spools it runs. */
  readonly daemons: readonly LiveDaemon[]
  /** Spools of which no daemon answers, and why. */
  readonly silent: ReadonlyArray<{ readonly directory: string; readonly because: string }>
}

const ON_REDIS =
  '[NOT_ON_REDIS] the daemons of a spool on Redis listen at no socket that is found by its address: use signals of their processes'

/** Finds the daemons of spools, by their control sockets. */
export async function findDaemons(directories: readonly string[]): Promise<FoundDaemons> {
  const daemons = new Map<string, LiveDaemon>()
  const silent: Array<{ directory: string; because: string }> = []
  silent.push(...directories.filter(isRedisAddress).map(directory => ({ directory, because: ON_REDIS })))
  for (const directory of directories.filter(each => !isRedisAddress(each)))
    try {
      const sockets = controlSocketsOf(realpathSync(directory))
      const answers = await Promise.allSettled(sockets.map(factsAt))
      const found = answers.flatMap((answer, i) =>
        answer.status === 'fulfilled' ? [{ path: sockets[i] ?? '', directory, facts: answer.value }] : [],
      )
      for (const each of found) {
        const { host, pid, startedAtMs } = each.facts
        const key = `${host} ${pid} ${startedAtMs}`
        if (!daemons.has(key)) daemons.set(key, each)
      }
      if (found.length === 0) silent.push({ directory, because: whySilent(answers) })
    } catch (error) {
      silent.push({ directory, because: messageOf(error) })
    }
  return { daemons: [...daemons.values()], silent }
}

async function factsAt(path: string): Promise<DaemonFacts> {
  const facts = readDaemonFacts(await askDaemon(path, 'snapshot', {}))
  if (facts === undefined) throw new Error('it does not say who it is')
  return facts
}

/** A socket that refuses belongs to a daemon that is dead. */
function whySilent(answers: ReadonlyArray<PromiseSettledResult<unknown>>): string {
  const faults = answers.flatMap(answer => (answer.status === 'rejected' ? [messageOf(answer.reason)] : []))
  return faults.find(fault => !fault.includes('ECONNREFUSED')) ?? 'no daemon runs it'
}
