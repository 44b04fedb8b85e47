// A daemon that adapts, under a load whose tasks sleep.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { askDaemon } from '../../build/src/engines/control/client.js'
import { encodePacket } from '../../build/src/formats/protocol/packet.js'
import { BIN, percentile, start, until, withDirectory } from '../harness.mjs'
import { MAXIMUM, play, reversalsOf } from './arrivals.mjs'

/** How long the starts of its workers, and those of daemons beside it, take at most. */
const SETTLE_MS = 5000
const HANDLER = `import { setTimeout } from 'node:timers/promises'
export default async ({ ms }, task) => {
  await setTimeout(Number(ms))
  return task.SPOOL_OK
}
`

/** @param algorithm one of spoold's, or `fixed` */
export function optionsOf(algorithm) {
  const processes = ['--spooler-processes', String(MAXIMUM)]
  if (algorithm === 'fixed') return processes
  if (algorithm === 'cheap') return [...processes, '--spooler-cheap']
  return [...processes, '--spooler-cheaper', '1', '--spooler-cheaper-algo', algorithm]
}

/** Starts a daemon, calls `use` when it has its first workers, and stops it. */
export function withDaemon(options, use) {
  return withDirectory('memory', async directory => {
    const [spool, aside, log] = ['spool', 'aside', 'log'].map(name => join(directory, name))
    for (const path of [spool, aside]) mkdirSync(path)
    writeFileSync(join(directory, 'handler.mjs'), HANDLER)
    const args = [
      '--spooler',
      spool,
      '--spooler-import',
      join(directory, 'handler.mjs'),
      '--log-format',
      'json',
    ]
    const daemon = start(process.execPath, [BIN, ...args, ...options], log)
    const snapshot = async () => (await askDaemon(join(spool, '.spoold/control'), 'snapshot', {})).spools[0]
    const put = (number, ms) => {
      const hidden = join(aside, `t${number}`)
      writeFileSync(hidden, encodePacket([[Buffer.from('ms'), Buffer.from(ms.toFixed(3))]]), { mode: 0o600 })
      renameSync(hidden, join(spool, `uwsgi_spoolfile_on_bench_1_${number + 1}_1_1_1`))
    }
    try {
      await until('it runs', () => daemon.log().includes('is running'))
      await until('its workers are ready', async () => {
        const { wanted, workers } = (await snapshot()).processes
        return workers.filter(({ state }) => state === 'ready').length >= wanted
      })
      await setTimeout(SETTLE_MS)
      return await use({ pid: daemon.pid, spool, put, snapshot, events: () => eventsOf(log) })
    } finally {
      await daemon.stop()
    }
  })
}

function eventsOf(log) {
  const text = readFileSync(log, 'utf8')
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line))
}

/** @returns how many workers there were at the end of each second, and what tasks waited */
export function runSpoold(algorithm, arrivals, seconds) {
  return withDaemon(optionsOf(algorithm), async ({ put, snapshot, events }) => {
    const workers = new Array(seconds)
    const asked = []
    const beganMs = Date.now()
    await play(arrivals, seconds, {
      begin: put,
      second: at => {
        const note = ({ processes }) => {
          workers[at - 1] = processes.present
        }
        asked.push(snapshot().then(note, () => {}))
      },
    })
    await Promise.all(asked)
    // a daemon that has no time to answer has no time to change the number either
    for (let at = 0; at < seconds; at++) workers[at] ??= workers[at - 1] ?? 0
    const endedMs = Date.now()
    const all = events()
    const of = name => all.filter(({ event }) => event === name)
    const waits = of('task-ended').map(({ waitMs }) => waitMs)
    const begun = of('task-started').length
    const late = [...arrivals.arrivedAt.subarray(begun)].map(at => endedMs - beganMs - at / 1000)
    return {
      workers,
      p95Ms: Math.round(percentile([...waits, ...late], 95)),
      processSeconds: Math.round(workers.reduce((sum, count) => sum + count, 0)),
      reversals: reversalsOf(
        all.flatMap(({ event, time }) =>
          time < beganMs ? [] : event === 'worker-spawned' ? [1] : event === 'worker-cheaped' ? [-1] : [],
        ),
      ),
    }
  })
}
