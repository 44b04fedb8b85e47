import { hostname } from 'node:os'
import { messageOf } from '../base/errors.js'
import type { AlarmTarget } from '../net/alarm-target.js'
import type { DaemonSnapshot } from '../stats/snapshot.js'
import { type Alarm, AlarmConditions, alarmText } from './alarm-conditions.js'
import { AlarmOutbox } from './alarm-outbox.js'
import { openWebhook, post } from './webhook.js'

export interface AlarmOptions extends AlarmTarget {
  /** `spooler-http-insecure` */
  readonly allowsPlain: boolean
}

interface AlarmsContext {
  snapshot(): Promise<DaemonSnapshot>
  /** One line per alarm. */
  alarm(text: string): void
  /** Called once, until a message is taken again. */
  trouble(message: string): void
}

const EVERY_MS = 2000
const FIRST_RETRY_MS = 1000
const LAST_RETRY_MS = 300_000
/** An exporter this young beside a daemon this young is its first. */
const YOUNG_MS = 10_000

/** Looks at the daemon regularly, logs what is alarming, and posts it. A slow receiver delays neither looks nor lines. */
export class Alarms {
  readonly #context: AlarmsContext
  readonly #targets: ReadonlyArray<{ readonly conditions: AlarmConditions; readonly sender: Sender | null }>
  readonly #timer: NodeJS.Timeout
  #isLooking = false

  constructor(options: readonly AlarmOptions[], context: AlarmsContext) {
    this.#context = context
    this.#targets = options.map(each => ({
      conditions: new AlarmConditions(each.limits),
      sender: each.webhook === null ? null : new Sender(each.webhook, each.allowsPlain, context.trouble),
    }))
    this.#timer = setInterval(() => void this.#look(), EVERY_MS)
    void this.#look()
  }

  close(): void {
    clearInterval(this.#timer)
    for (const { sender } of this.#targets) sender?.close()
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return
    this.#isLooking = true
    const snapshot = await this.#context.snapshot().catch(() => undefined) // the daemon is busy: the next look
    this.#isLooking = false
    if (snapshot !== undefined) this.#compare(snapshot)
  }

  #compare(snapshot: DaemonSnapshot): void {
    const lines = new Set<string>() // targets with the same limits raise the same alarms
    const isFromStart = performance.timeOrigin - snapshot.daemon.startedAtMs < YOUNG_MS
    for (const { conditions, sender } of this.#targets) {
      const alarms = conditions.look(snapshot, isFromStart)
      for (const alarm of alarms) lines.add(lineOf(alarm))
      sender?.send(alarms, snapshot)
    }
    for (const line of lines) this.#context.alarm(line)
  }
}

/** Posts to one webhook, one message at a time. */
class Sender {
  readonly #webhook: NonNullable<AlarmTarget['webhook']>
  readonly #allowsPlain: boolean
  readonly #trouble: (message: string) => void
  readonly #outbox = new AlarmOutbox()
  #daemon: DaemonSnapshot['daemon'] | undefined
  #retry: NodeJS.Timeout | undefined
  #isPosting = false
  #failures = 0
  #isTroubled = false

  constructor(
    webhook: NonNullable<AlarmTarget['webhook']>,
    allowsPlain: boolean,
    trouble: (message: string) => void,
  ) {
    this.#webhook = webhook
    this.#allowsPlain = allowsPlain
    this.#trouble = trouble
    openWebhook(webhook, allowsPlain).catch(error => this.#failed(error)) // not only when the first alarm is due
  }

  send(alarms: readonly Alarm[], { daemon }: DaemonSnapshot): void {
    this.#daemon = daemon
    for (const alarm of alarms) this.#outbox.add(alarm)
    if (this.#retry === undefined) void this.#post()
  }

  close(): void {
    clearTimeout(this.#retry)
  }

  async #post(): Promise<void> {
    if (this.#isPosting || this.#outbox.isEmpty) return
    this.#isPosting = true
    const taken = this.#outbox.take()
    try {
      await post(this.#webhook, this.#allowsPlain, this.#message(taken))
      this.#failures = 0
      this.#isTroubled = false
    } catch (error) {
      this.#outbox.giveBack(taken)
      this.#failed(error)
      this.#retry = setTimeout(
        () => {
          this.#retry = undefined
          void this.#post()
        },
        retryDelay(this.#failures++),
      )
    } finally {
      this.#isPosting = false
    }
  }

  #failed(error: unknown): void {
    if (!this.#isTroubled) this.#trouble(`spooler-alarm: alarms are not delivered: ${messageOf(error)}`)
    this.#isTroubled = true
  }

  #message({ alarms, replaced }: ReturnType<AlarmOutbox['take']>): string {
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

/** Doubles, and varies by half: receivers that come back are not met by all daemons at once. */
function retryDelay(failures: number): number {
  return Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(failures, 20)) * (0.5 + Math.random() / 2)
}

function lineOf(alarm: Alarm): string {
  const { kind, state, spool } = alarm
  return `alarm${state === 'cleared' ? ' cleared' : ''}: ${kind}: [spooler ${spool}] ${alarmText(alarm)}`
}
