import { wrongArg } from '../../../admin/operate/args.js'
import { counted } from '../../../base/counted.js'
import { messageOf } from '../../../base/errors.js'
import { hasFields } from '../../../base/json-guard.js'
import { LEVELS } from '../../../base/log/log.js'
import { askDaemon } from '../../../engines/control/client.js'
import { asOwners } from '../acting-owner.js'
import type { CommandContext } from '../context.js'
import { findDaemons, type LiveDaemon } from '../daemons.js'
import type { Output } from '../output.js'
import { type IniOptions, spoolsOf } from '../places.js'
import { isoTime } from '../render.js'

interface LogsOptions extends IniOptions {
  readonly follow?: boolean
  readonly level?: string
  readonly json?: boolean
}

interface Line {
  readonly atMs: number
  readonly level: string
  readonly text: string
}

/**
 * `spoold logs [-f] [DIR…]`: prints the lines of the log that daemons have in memory; with -f also the lines that they log from
 * now on, until they end.
 *
 * @returns 1 if a daemon does not answer, or ends without saying that it stops
 */
export async function logs(
  named: readonly string[],
  options: LogsOptions,
  context: CommandContext,
): Promise<number> {
  const { output, ownProcess } = context
  output.purpose = 'look'
  const { level = 'info' } = options
  if (!LEVELS.some(each => each === level)) throw wrongArg('--level', LEVELS.join(', '), level)
  return asOwners(ownProcess, await spoolsOf(named, options, context), async spools => {
    const { daemons, silent } = await findDaemons(spools)
    for (const { place, because } of silent)
      output.complain(`${place.shown}: ${because}; is its log in a file?`)
    const isOne = daemons.length === 1
    const codes = await Promise.all(daemons.map(each => logsOf(each, isOne, options, output)))
    return Math.max(silent.length > 0 ? 1 : 0, ...codes)
  })
}

async function logsOf(
  { path, place, facts: { pid } }: LiveDaemon,
  isOne: boolean,
  { follow = false, level, json = false }: LogsOptions,
  output: Output,
): Promise<number> {
  const print = (line: Line) => {
    if (json) return output.json({ pid, at: isoTime(line.atMs), level: line.level, text: line.text })
    output.paragraph(`${isOne ? '' : `${pid} `}${timeOf(line.atMs)} ${line.text}`)
  }
  return new Promise((resolve, reject) => {
    const abort = new AbortController()
    const event = (batch: unknown) => {
      try {
        const { lines, missed } = batchOf(batch)
        for (const line of lines) print(line)
        if (missed > 0)
          output.complain(
            `missed ${counted(missed, 'line')} of process ${pid}: it writes faster than its lines were read`,
          )
      } catch (error) {
        abort.abort() // the reader of our output has gone
        reject(error)
      }
    }
    const args = { follow, ...(level === undefined ? {} : { level }) }
    askDaemon(path, 'events', args, {
      ...(follow ? { silenceMs: Number.POSITIVE_INFINITY } : {}),
      event,
      signal: abort.signal,
    }).then(
      () => resolve(0),
      (error: { readonly code?: string }) => {
        if (error.code === 'stopped') return resolve(0)
        output.complain(`${place.shown}: process ${pid}: ${messageOf(error)}`)
        resolve(1)
      },
    )
  })
}

function batchOf(batch: unknown): { readonly lines: readonly Line[]; readonly missed: number } {
  if (!hasFields(batch, { lines: 'objects', missed: 'count' }, {})) return { lines: [], missed: 0 }
  const { lines, missed } = batch as { lines: object[]; missed: number }
  return { lines: lines.filter(isLine), missed }
}

function isLine(value: object): value is Line {
  return hasFields(value, { atMs: 'time', level: 'text', text: 'text' }, {})
}

/** Returns the time in this machine's time zone: `2026-12-24 08:00:00.123`. */
function timeOf(atMs: number): string {
  const offsetMs = new Date(atMs).getTimezoneOffset() * 60_000 || 0
  return isoTime(atMs - offsetMs)
    .replace('T', ' ')
    .slice(0, -1)
}
