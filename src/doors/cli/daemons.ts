import { once } from 'node:events'
import type { Socket } from 'node:net'
import { errnoOf, messageOf } from '../../base/errors.js'
import { toByteString } from '../../base/task/ref.js'
import { askDaemon, askEach, connectTo, controlSocketsOf } from '../../engines/control/client.js'
import { daemonSocketsOf, openEngine } from '../../engines/open-engine.js'
import { neighboursOf } from '../../engines/spool/neighbours.js'
import { readDaemonFacts } from '../../runtime/stats/read-snapshot.js'
import type { DaemonFacts } from '../../runtime/stats/snapshot.js'
import type { Place } from './places.js'

/** A daemon that answers. */
export interface LiveDaemon {
  /** The path of a control socket. */
  readonly path: string
  /** The spool in which the daemon was found. */
  readonly place: Place
  readonly facts: DaemonFacts
}

export interface FoundDaemons {
  /** Each daemon once, however many of the spools it runs. */
  readonly daemons: readonly LiveDaemon[]
  /** The spools whose daemons do not answer, and why. */
  readonly silent: ReadonlyArray<{ readonly place: Place; readonly because: string }>
}

/** Finds the daemons of spools, by their control sockets. */
export async function findDaemons(places: readonly Place[]): Promise<FoundDaemons> {
  const daemons = new Map<string, LiveDaemon>()
  const silent: Array<{ place: Place; because: string }> = []
  for (const place of places)
    try {
      const { spool, fault } = place
      if (fault !== undefined) throw fault
      const { answers, fault: because } = await askEach(await daemonSocketsOf(spool), factsAt)
      for (const { path, answer: facts } of answers) {
        const key = `${facts.host} ${facts.pid} ${facts.startedAtMs}`
        if (!daemons.has(key)) daemons.set(key, { path, place, facts })
      }
      if (answers.length > 0) continue
      const elsewhere = await hostsOf(spool)
      silent.push({
        place,
        because: elsewhere.length > 0 ? askThere(elsewhere) : (because ?? 'no daemon runs it'),
      })
    } catch (error) {
      silent.push({ place, because: messageOf(error) })
    }
  return { daemons: [...daemons.values()], silent }
}

/** Returns the machines with daemons of a spool on a server. */
async function hostsOf(spool: string): Promise<string[]> {
  const members = (await openEngine(spool).members?.()) ?? []
  return [...new Set(members.filter(({ isDaemon }) => isDaemon).map(({ host }) => host))]
}

function askThere(hosts: readonly string[]): string {
  return `no daemon on this machine can be asked; its daemons run on ${hosts.join(', ')}: use this command there, as their user; or as root, with --ini and a configuration that names it`
}

async function factsAt(path: string): Promise<DaemonFacts> {
  const facts = readDaemonFacts(await askDaemon(path, 'snapshot', {}))
  if (facts === undefined) throw new Error('it does not say who it is')
  return facts
}

/**
 * True if anybody runs the tasks of a directory, as far as this user sees it.
 *
 * @param spool its real path
 * @returns undefined if the directory, or a socket in it, is closed to this user, or if a daemon of another host has been there
 */
export async function hasDaemon(spool: string): Promise<boolean | undefined> {
  let sockets: readonly string[]
  try {
    sockets = controlSocketsOf(spool)
  } catch {
    return undefined
  }
  const faults = await Promise.all(sockets.map(faultOf))
  if (faults.includes(undefined)) return true
  if (neighboursOf(toByteString(spool)).length > 0) return true
  const isElsewhere = (path: string) => path.includes('/control@')
  return faults.some(fault => fault !== 'ECONNREFUSED') || sockets.some(isElsewhere) ? undefined : false
}

/** Returns why nobody listens at a socket; undefined if somebody does. */
async function faultOf(path: string): Promise<string | undefined> {
  let socket: Socket | undefined
  try {
    socket = connectTo(path)
    await once(socket, 'connect')
    return undefined
  } catch (error) {
    return errnoOf(error) ?? ''
  } finally {
    socket?.destroy()
  }
}
