import type { Options } from '../../formats/config/option-table.js'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import { type AlarmTarget, parseAlarm } from '../net/alarm-target.js'
import { type Alarm, AlarmConditions, alarmText, type ConditionsMemory } from './alarm-conditions.js'
import type { Undelivered } from './alarm-outbox.js'
import { AlarmSender } from './alarm-sender.js'

/**
 * What each target has been told, and is still to be told. A reload that changes what is published replaces the process. The next
 * one neither repeats an alarm nor forgets that it is raised. Plain JSON.
 */
export type AlarmMemory = ReadonlyArray<
  readonly [
    target: string,
    { readonly conditions: ConditionsMemory | null; readonly undelivered: Undelivered },
  ]
>

interface AlarmsContext {
  /** Called with one line per alarm. */
  alarm(text: string): void
  /** Called once, until a message is taken again. */
  trouble(message: string): void
  /** Called when the memory has changed. */
  remember(memory: AlarmMemory): void
}

interface Target {
  readonly key: string
  readonly conditions: AlarmConditions
  /** Null: the target's alarms are only logged. */
  readonly sender: AlarmSender | null
}

/** An exporter younger than this, beside a daemon younger than this, is the daemon's first. */
const YOUNG_MS = 10_000
const NOTHING: Undelivered = { alarms: [], replaced: 0 }

/** Looks at each snapshot, logs alarms, and posts them. A slow receiver delays neither looks nor lines. */
export class Alarms {
  readonly #context: AlarmsContext
  readonly #targets: readonly Target[]
  #remembered = ''

  constructor(
    { spoolerAlarm, spoolerHttpInsecure: allowsPlain }: Pick<Options, 'spoolerAlarm' | 'spoolerHttpInsecure'>,
    memory: AlarmMemory,
    context: AlarmsContext,
  ) {
    this.#context = context
    const remembered = new Map(memory)
    this.#targets = spoolerAlarm.map(parseAlarm).map(({ limits, webhook }, i, all) => {
      const key = keyOf(all, i)
      const { conditions = null, undelivered } = remembered.get(key) ?? {}
      const sender =
        webhook === null
          ? null
          : new AlarmSender(webhook, allowsPlain, undelivered, {
              trouble: context.trouble,
              changed: () => this.#remember(),
            })
      return { key, conditions: new AlarmConditions(limits, conditions), sender }
    })
  }

  async close(): Promise<void> {
    await Promise.all(this.#targets.map(({ sender }) => sender?.close()))
  }

  push(snapshot: DaemonSnapshot): void {
    const lines = new Set<string>() // targets with the same limits raise the same alarms
    const isFromStart = performance.timeOrigin - snapshot.daemon.startedAtMs < YOUNG_MS
    for (const { conditions, sender } of this.#targets) {
      const alarms = conditions.look(snapshot, isFromStart)
      for (const alarm of alarms) lines.add(lineOf(alarm))
      sender?.send(alarms, snapshot)
    }
    for (const line of lines) this.#context.alarm(line)
    this.#remember()
  }

  #remember(): void {
    const memory: AlarmMemory = this.#targets.map(({ key, conditions, sender }) => [
      key,
      { conditions: conditions.memory, undelivered: sender?.undelivered ?? NOTHING },
    ])
    const text = JSON.stringify(memory)
    if (text !== this.#remembered) this.#context.remember(memory)
    this.#remembered = text
  }
}

/**
 * Returns what a target is remembered by: its URL, because whoever receives there knows what was sent there, while its limits may
 * change.
 */
function keyOf(targets: readonly AlarmTarget[], i: number): string {
  const urls = targets.slice(0, i + 1).map(({ webhook }) => JSON.stringify(webhook?.url ?? null))
  const url = urls.at(-1)
  return `${url} ${urls.filter(each => each === url).length}`
}

function lineOf(alarm: Alarm): string {
  const { kind, state, spool } = alarm
  return `alarm${state === 'cleared' ? ' cleared' : ''}: ${kind}: [spooler ${spool}] ${alarmText(alarm)}`
}
