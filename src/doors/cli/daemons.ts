import { messageOf } from '../../base/errors.js'
import { printable } from '../../base/printable.js'
import { askDaemon } from '../../engines/control/client.js'
import { daemonSocketsOf, openEngine } from '../../engines/open-engine.js'
import { readDaemonFacts } from '../../runtime/stats/read-snapshot.js'
import type { DaemonFacts } from '../../runtime/stats/snapshot.js'
import { spoolAt } from './redis-paths.js'

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

/** Finds the daemons of spools, by their control sockets. */
export async function findDaemons(directories: readonly string[]): Promise<FoundDaemons> {
  const daemons = new Map<string, LiveDaemon>()
  const silent: Array<{ directory: string; because: string }> = []
  for (const directory of directories)
    try {
      const spool = spoolAt(directory)
      const sockets = await daemonSocketsOf(spool)
      const answers = await Promise.allSettled(sockets.map(factsAt))
      const found = answers.flatMap((answer, i) =>
        answer.status === 'fulfilled' ? [{ path: sockets[i] ?? '', directory, facts: answer.value }] : [],
      )
      for (const each of found) {
        const { host, pid, startedAtMs } = each.facts
        const key = `${host} ${pid} ${startedAtMs}`
        if (!daemons.has(key)) daemons.set(key, each)
      }
      const elsewhere = found.length > 0 ? [] : await hostsOf(spool)
      if (found.length === 0)
        silent.push({ directory, because: elsewhere.length > 0 ? askThere(elsewhere) : whySilent(answers) })
    } catch (error) {
      silent.push({ directory, because: messageOf(error) })
    }
  return { daemons: [...daemons.values()], silent }
}

/** The machines with daemons of a spool on a server. */
async function hostsOf(spool: string): Promise<string[]> {
  const members = (await openEngine(spool).members?.()) ?? []
  return [...new Set(members.filter(({ isDaemon }) => isDaemon).map(({ host }) => host))]
}

function askThere(hosts: readonly string[]): string {
  return `no daemon on this machine can be asked; its daemons run on ${printable(hosts.join(', '))}: use this command there, as their user or root`
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
