import { counted } from '../../base/counted.js'
import { SpooldError } from '../../base/errors.js'
import type { Stored } from '../../base/task/request.js'
import type { Connection } from './connection.js'
import { type Draft, identityKey } from './drafts.js'
import type { Client, Queue } from './libraries.js'
import { commandOf, scriptsOf } from './scripts.js'

/** How long replicas have to confirm a task. */
const REPLICATION_MS = 2000

type Jobs = ReadonlyArray<readonly [key: string, job: string]>

/** Adds a task whose identity is the id of its job, so that BullMQ's own script adds it once. */
export async function addOne(
  connection: Connection,
  draft: Draft,
  patienceMs: number | undefined,
): Promise<Stored> {
  const { json } = draft
  const adding = (queue: Queue, client: Client) =>
    queue.getBackend().addJobToTransaction(client, json, json.id)
  if (connection.address.replicas === 0) await connection.use(adding, patienceMs)
  else
    await connection.use(async (queue, client) => {
      const [, replicas] = await Promise.all([
        adding(queue, client),
        countReplicas(connection, [connection.key(keyOf(draft))]),
      ])
      checkReplicas(connection, replicas)
    }, patienceMs)
  return { path: `${connection.name}/${json.id}`, isDuplicate: false }
}

/** Adds tasks, all or none, except those whose identity is known already. */
export async function addAll(
  connection: Connection,
  drafts: readonly Draft[],
  patienceMs: number | undefined,
): Promise<Stored[]> {
  /** The jobs, by the keys of their identities. */
  const jobs = new Map<string, string>()
  for (;;) {
    const left = new Map(drafts.flatMap(draft => (jobs.has(keyOf(draft)) ? [] : [[keyOf(draft), draft]])))
    if (left.size === 0) break
    const first = drafts.filter(draft => left.get(keyOf(draft)) === draft)
    const add = (queue: Queue, client: Client) => tryToAdd(connection, queue, client, first)
    const added = await connection.use(add, patienceMs)
    for (const [key, job] of added) jobs.set(key, job)
  }
  return drafts.map(draft => {
    const job = jobs.get(keyOf(draft)) ?? ''
    return { path: `${connection.name}/${job}`, isDuplicate: job !== draft.json.id }
  })
}

/**
 * Adds tasks with different identities by one transaction, unless an id is known.
 *
 * @returns the jobs of the identities that are known now: of all tasks, if no id was known before
 */
async function tryToAdd(
  connection: Connection,
  queue: Queue,
  client: Client,
  drafts: readonly Draft[],
): Promise<Jobs> {
  const backend = queue.getBackend()
  const named = drafts.filter(({ identity }) => identity.kind === 'id')
  const keys = named.map(draft => connection.key(keyOf(draft)))
  const transaction = client.multi()
  for (const { json } of drafts) void backend.addJobToTransaction(transaction, json, json.id)
  if (named.length > 0)
    transaction.runCommand(commandOf('remember'), [
      ...[keys.length + 1, connection.key('spoold:ids'), ...keys, connection.key('')],
      ...named.flatMap(({ json, identity }) => [json.id, identity.text, json.timestamp]),
    ])
  // All commands are written in one piece, which needs no reply in between. `recall` writes known ids once more, so that the
  // transaction, which watches them, is given up.
  const [, known = [], replies, replicas] = await Promise.all([
    named.length === 0 ? undefined : connection.redis.watch(keys),
    named.length === 0
      ? undefined
      : (client.runCommand(commandOf('recall'), [keys.length, ...keys]) as Promise<string[]>),
    transaction.exec(),
    countReplicas(
      connection,
      drafts.map(draft => connection.key(keyOf(draft))),
    ),
  ])
  const failures = (replies ?? []).flatMap(([error]) => error ?? [])
  if (failures.some(({ message }) => message.startsWith('NOSCRIPT'))) {
    await loadScripts(connection) // the client had sent them in a transaction that was given up
    return []
  }
  for (const failure of failures) throw failure
  checkReplicas(connection, replicas)
  if (replies !== null) return drafts.map(draft => [keyOf(draft), draft.json.id])
  return named.flatMap((draft, i) => (known[i] ? [[keyOf(draft), known[i]] as const] : []))
}

/**
 * Loads the scripts. A client sends a script once, and then its hash; in a transaction it does not see that Redis lacks the
 * script.
 */
async function loadScripts(connection: Connection): Promise<void> {
  const { redis } = connection
  const loading = redis.pipeline().exists(connection.key('meta')) // in a cluster, at the node that has the spool
  for (const [name, { lua }] of Object.entries(scriptsOf(redis)))
    if (/^(spoold:|add\w*Job)/.test(name)) loading.script('LOAD', lua)
  for (const [error] of (await loading.exec()) ?? []) if (error !== null) throw error
}

/**
 * Returns how many replicas have what was written before this on the same connection; 0 if the address asks for none.
 *
 * @param keys they choose the node of a cluster
 */
export async function countReplicas({ redis, address }: Connection, keys: string[]): Promise<number> {
  if (address.replicas === 0) return 0
  const replies = await redis.pipeline().exists(keys).wait(address.replicas, REPLICATION_MS).exec()
  return Number(replies?.[1]?.[1] ?? 0)
}

/** @throws SpooldError REDIS_UNREPLICATED */
export function checkReplicas({ name, address }: Connection, confirmed: number): void {
  const { replicas: wanted } = address
  if (confirmed >= wanted) return
  throw new SpooldError(
    'REDIS_UNREPLICATED',
    `${name}: the task is stored, but after ${REPLICATION_MS / 1000} s only ${confirmed} of ${counted(wanted, 'replica')} confirmed it`,
    { details: { confirmed, wanted } },
  )
}

function keyOf({ identity }: Draft): string {
  return identityKey(identity)
}
