import { createHmac } from 'node:crypto'
import { request as plainRequest } from 'node:http'
import { request } from 'node:https'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf } from '../../base/errors.js'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import { privateText } from '../../system/private-file.js'
import { type Webhook, webhookUrl } from '../net/alarm-target.js'
import { type Alarm, alarmText } from './alarm-conditions.js'
import { AlarmOutbox, type Undelivered } from './alarm-outbox.js'

interface SenderContext {
  /** Called once, until a message is taken again. */
  trouble(message: string): void
  /** Called when what is undelivered has changed. */
  changed(): void
}

const FIRST_RETRY_MS = 1000
const LAST_RETRY_MS = 300_000
/** Less than the time for which the daemon waits for the end of this process. */
const LINGER_MS = 500

/** Posts to one webhook, one message at a time. */
export class AlarmSender {
  readonly #webhook: Webhook
  readonly #allowsPlain: boolean
  readonly #context: SenderContext
  readonly #outbox = new AlarmOutbox()
  #daemon: DaemonSnapshot['daemon'] | undefined
  #retry: NodeJS.Timeout | undefined
  /** The message that is on its way. */
  #posted: { readonly what: Undelivered; readonly whenEnded: Promise<void> } | undefined
  #isClosed = false
  #failures = 0
  #isTroubled = false

  constructor(
    webhook: Webhook,
    allowsPlain: boolean,
    undelivered: Undelivered | undefined,
    context: SenderContext,
  ) {
    this.#webhook = webhook
    this.#allowsPlain = allowsPlain
    this.#context = context
    if (undelivered !== undefined) this.#outbox.giveBack(undelivered)
    openWebhook(webhook, allowsPlain).catch(error => this.#failed(error)) // now, and not only when the first alarm is due
  }

  get undelivered(): Undelivered {
    const all = new AlarmOutbox()
    all.giveBack(this.#outbox.content)
    if (this.#posted !== undefined) all.giveBack(this.#posted.what)
    return all.content
  }

  send(alarms: readonly Alarm[], { daemon }: DaemonSnapshot): void {
    this.#daemon = daemon
    for (const alarm of alarms) this.#outbox.add(alarm)
    if (this.#retry === undefined) this.#post()
  }

  /** Closes the sender. A message that is on its way gets a moment to arrive. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#retry)
    await Promise.race([this.#posted?.whenEnded, sleep(LINGER_MS)])
  }

  #post(): void {
    if (this.#posted !== undefined || this.#outbox.isEmpty) return
    const what = this.#outbox.take()
    this.#posted = { what, whenEnded: this.#deliver(what) }
  }

  async #deliver(what: Undelivered): Promise<void> {
    try {
      await post(this.#webhook, this.#allowsPlain, this.#message(what))
      this.#failures = 0
      this.#isTroubled = false
    } catch (error) {
      this.#outbox.giveBack(what)
      this.#failed(error)
      this.#retryLater()
    } finally {
      this.#posted = undefined
      this.#context.changed()
    }
  }

  #retryLater(): void {
    if (this.#isClosed) return
    const again = () => {
      this.#retry = undefined
      this.#post()
    }
    this.#retry = setTimeout(again, retryDelay(this.#failures++))
  }

  #failed(error: unknown): void {
    if (!this.#isTroubled)
      this.#context.trouble(`spooler-alarm: alarms are not delivered: ${messageOf(error)}`)
    this.#isTroubled = true
  }

  #message({ alarms, replaced }: Undelivered): string {
    const sentAt = new Date().toISOString()
    return JSON.stringify({
      version: 1,
      host: this.#daemon?.host ?? hostname(),
      pid: this.#daemon?.pid,
      sentAt,
      replaced,
      alarms: alarms.map(alarm => ({
        kind: alarm.kind,
        state: alarm.state,
        spool: alarm.spool,
        at: new Date(alarm.atMs).toISOString(),
        text: alarmText(alarm),
        ...(alarm.kind === 'buried' ? { count: alarm.count } : {}),
      })),
    })
  }
}

/**
 * Returns the delay before the next attempt, in ms. It doubles, and varies by half, so that a receiver that comes back is not met
 * by all daemons at once.
 */
function retryDelay(failures: number): number {
  return Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(failures, 20)) * (0.5 + Math.random() / 2)
}

const TIMEOUT_MS = 10_000

/**
 * Posts a body to a webhook. Of the answer, only the status is read. No error message contains the secret, or more of the URL
 * than its host.
 *
 * @throws Error why the message was not taken
 */
async function post(webhook: Webhook, allowsPlain: boolean, body: string): Promise<void> {
  const { target, secret } = await openWebhook(webhook, allowsPlain)
  const status = await send(target, body, {
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    'user-agent': 'spoold',
    ...(secret === null ? {} : { 'x-spoold-signature': `sha256=${signature(secret, body)}` }),
  })
  if (status >= 300 && status < 400)
    throw new Error(`${target.host} answered with status ${status}; redirects are not followed`)
  if (status < 200 || status > 299) throw new Error(`${target.host} answered with status ${status}`)
}

/** Returns the URL and the secret, read from their files if they are in files. @throws Error, as `post` does */
async function openWebhook({ url, secretFile }: Webhook, allowsPlain: boolean) {
  return {
    target: webhookUrl('text' in url ? url.text : await privateText(url.file), allowsPlain),
    secret: secretFile === null ? null : await privateText(secretFile),
  }
}

function signature(secret: string, body: string): string {
  return createHmac('sha256', secret).update(body).digest('hex')
}

/** Sends a request. @returns the status of the answer */
function send(url: URL, body: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const begin = url.protocol === 'https:' ? request : plainRequest
    const sent = begin(url, { method: 'POST', headers, agent: false, rejectUnauthorized: true })
    const timer = setTimeout(
      () => sent.destroy(new Error(`${url.host} did not answer within ${TIMEOUT_MS / 1000} s`)),
      TIMEOUT_MS,
    )
    sent.once('close', () => clearTimeout(timer))
    sent.on('error', reject)
    sent.once('response', response => {
      response.on('error', () => {}) // the answer is cut off here
      response.destroy()
      resolve(response.statusCode ?? 0)
    })
    sent.end(body)
  })
}
