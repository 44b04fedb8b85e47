import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { hasFields } from '../../base/json-guard.js'
import { CANCEL_RESULTS, type CancelNews, type CancelResult } from '../../base/task/cancel.js'
import type { Member } from '../../base/task/member.js'
import type { Ref } from '../../base/task/ref.js'
import type { Connection } from './connection.js'
import { jsonIn } from './task-job.js'

/**
 * Orders to end running tasks, whichever machine runs them. The hash `spoold:cancel` has one order per task: a random word and a
 * time. The process that runs the task writes what comes of the order to `spoold:cancelled:WORD`, again and again until the task
 * has ended.
 */

/** An order that nobody has taken for this long is void, because the task may have another run by then. */
const VALID_MS = 60_000
/** How often the process that obeys writes that it is still at it, how long that is kept, and how long the end is kept. */
const NEWS_EVERY_MS = 2000
const NEWS_KEPT_MS = 10_000
const END_KEPT_MS = 60_000
/** How often the process that asks looks for an answer, and how long it waits without any. */
const LOOK_MS = 100
const SILENT_MS = 8000

/** What is written about an order: that it was taken, or how it ended. */
type Word = { readonly news: CancelNews | null } | { readonly end: CancelResult }

const ordersOf = (connection: Connection) => connection.key('spoold:cancel')
const wordKey = (connection: Connection, order: string) => connection.key(`spoold:cancelled:${order}`)

/** Takes the orders for tasks that this member runs. Resolves before they are carried out. */
export async function obeyCancels(connection: Connection, member: Member): Promise<void> {
  const { redis } = connection
  const orders = await connection.use(() => redis.hgetall(ordersOf(connection)))
  for (const [task, text] of Object.entries(orders)) {
    const [order = '', atMs] = text.split(' ')
    const isVoid = Number(atMs) < (await connection.nowMs()) - VALID_MS
    if (isVoid) await connection.use(() => redis.hdel(ordersOf(connection), task))
    else void obey(connection, member, task, order).catch(() => {}) // the process that asks hears nothing, and says so
  }
}

async function obey(connection: Connection, member: Member, task: Ref, order: string): Promise<void> {
  const { redis } = connection
  let news: CancelNews | null = null
  const ending = member.cancel(task, told => {
    news = told
  })
  const early = await Promise.race([
    ending,
    new Promise<undefined>(resolve => setImmediate(resolve, undefined)),
  ])
  if (early?.result === 'elsewhere') return
  await connection.use(() => redis.hdel(ordersOf(connection), task)) // so that a later run of the task is not ended
  const say = (word: Word, keptMs: number) =>
    connection.use(() => redis.set(wordKey(connection, order), JSON.stringify(word), 'PX', keptMs))
  const sayNews = () => void say({ news }, NEWS_KEPT_MS).catch(() => {})
  sayNews()
  const telling = setInterval(sayNews, NEWS_EVERY_MS).unref()
  const end = await ending
  clearInterval(telling)
  await say({ end }, END_KEPT_MS)
}

interface Asked {
  readonly connection: Connection
  readonly task: Ref
  isRunning(): Promise<boolean>
  /** Called with what the end of the task waits for. */
  tell(news: CancelNews): void
}

/**
 * Has a task ended by the process that runs it.
 *
 * @returns `elsewhere`: no process that obeys runs the task; `waiting`: the task does not run any more, and has to be looked at
 *   again
 */
export async function orderCancel({ connection, task, isRunning, tell }: Asked): Promise<CancelResult> {
  const { redis } = connection
  const key = ordersOf(connection)
  const mine = `${randomUUID()} ${Math.floor(await connection.nowMs())}`
  const isMine = (await connection.use(() => redis.hsetnx(key, task, mine))) === 1
  const text = isMine ? mine : ((await connection.use(() => redis.hget(key, task))) ?? mine)
  const [order = ''] = text.split(' ')
  /**
   * True if nobody has taken the order. If it was taken, the task does not run any more because of it, and there will be an
   * answer.
   */
  const isUntaken = async () => (await connection.use(() => redis.hget(key, task))) === text
  let heardAt = performance.now()
  let last: string | null = null
  for (;;) {
    const said = await connection.use(() => redis.get(wordKey(connection, order)))
    const word = said === null ? undefined : wordIn(said)
    if (word !== undefined && 'end' in word) return word.end
    if (word !== undefined && word.news !== null && said !== last) tell(word.news)
    // what was said expires in Redis when the process that said it dies
    if (said !== null) [last, heardAt] = [said, performance.now()]
    const isSilent = performance.now() - heardAt > SILENT_MS
    const hasEnded = said === null && !(await isRunning()) && (await isUntaken())
    if (isSilent || hasEnded) {
      await connection.use(() => redis.hdel(key, task))
      return { result: hasEnded ? 'waiting' : 'elsewhere' }
    }
    await sleep(LOOK_MS)
  }
}

function wordIn(text: string): Word | undefined {
  const value = jsonIn(text)
  if (hasFields(value, { end: 'object' }, {})) {
    const { end } = value as { readonly end: CancelResult }
    return CANCEL_RESULTS.includes(end.result) ? { end } : undefined
  }
  return hasFields(value, {}, {}) ? (value as Word) : undefined
}
