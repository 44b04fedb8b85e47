import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { recordOf } from '../helpers/spools.js'
import { until } from '../helpers/until.js'
import { deadOf } from '../helpers/witness.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** The calls with which a worker changes a spool, by their purpose. */
const CALLS = {
  'the state byte': 'pwrite64',
  removing: 'unlink,unlinkat',
  renaming: 'rename,renameat,renameat2',
  linking: 'link,linkat',
  syncing: 'fsync,fdatasync',
  'setting times': 'utimensat',
  'making directories': 'mkdir,mkdirat',
  // A task does not begin if its mark cannot be written, or if it may run only once and its mark cannot be synced.
  'everything but the mark': 'unlink,unlinkat,rename,renameat,renameat2,link,linkat,utimensat,mkdir,mkdirat',
  everything:
    'pwrite64,unlink,unlinkat,rename,renameat,renameat2,link,linkat,fsync,fdatasync,utimensat,mkdir,mkdirat',
} as const
type Part = keyof typeof CALLS

const CASES: readonly (readonly [Part, string])[] = isLong
  ? (Object.keys(CALLS) as Part[]).flatMap(part =>
      ['ENOSPC', 'EIO', 'EACCES', 'EROFS'].map(errno => [part, errno] as const),
    )
  : [
      ['the state byte', 'EIO'],
      ['everything but the mark', 'ENOSPC'],
      ['everything', 'EROFS'],
    ]

/** A task gets the answer that its key `answer` names, and SPOOL_OK from its second run on. */
const HANDLER = `
export default (env, task) => {
  JOURNAL('start ' + env.n)
  if (env.answer === 'bury') return { bury: 'it says so' }
  if (env.answer === 'retry' && task.attempt === 1) return { retry: '1s' }
  if (env.answer === 'throw' && task.attempt === 1) throw new Error('it fails')
  JOURNAL('ok ' + env.n)
  return task.SPOOL_OK
}`
const ANSWERS = ['ok', 'bury', 'retry', 'throw']
const DELIVERIES = ['at-most-once', 'at-least-once']
/** Long enough, in ms, for the daemon to look again. */
const REFUSED_MS = 2500

const start = (spool: string) =>
  startDaemon({
    spool,
    handler: HANDLER,
    ini: { 'spooler-frequency': 1, 'spooler-processes': 1 },
    isGroup: true,
  })

async function runRefused(spool: string, calls: string, errno: string): Promise<Daemon> {
  const daemon = await start(spool)
  const [worker = 0] = await until('the daemon has a worker', () => {
    const children = daemon.workers()
    return children.length === 1 ? children : undefined
  })
  const inject = `inject=${calls}:error=${errno}`
  const strace = new TestProcess('strace', ['-f', '-p', String(worker), '-e', inject, '-o', '/dev/null'])
  await strace.waitFor(/attached/)
  for (const delivery of DELIVERIES)
    for (const answer of ANSWERS) {
      const n = `${delivery}-${answer}`
      drop(spool, n, packet({ n, answer, spooler_delivery: delivery }))
    }
  const since = performance.now()
  await until('the daemon has had its time', () => performance.now() - since > REFUSED_MS)
  assert.ok(daemon.isRunning, daemon.output)
  strace.child.kill('SIGKILL')
  await strace.exited
  process.kill(-daemon.pid, 'SIGKILL')
  await until('the daemon is gone', () => !daemon.isRunning)
  return daemon
}

/** Returns what became of each task, once nothing is refused any more. */
async function fatesOf(spool: string, daemon: Daemon) {
  const left = leftIn(spool)
  const dead = await deadOf(spool)
  const journal = daemon.journal()
  return DELIVERIES.flatMap(delivery =>
    ANSWERS.map(answer => {
      const n = `${delivery}-${answer}`
      const count = (word: string) => journal.filter(line => line === `${word} ${n}`).length
      const { reason } = dead.get(n) ?? {}
      return {
        n,
        answer,
        delivery,
        starts: count('start'),
        oks: count('ok'),
        reason,
        isLeft: left.includes(n),
      }
    }),
  )
}

describe('a worker whose system calls are refused', {
  skip: skipUnless('strace', 'root'),
  concurrency: 2,
}, () => {
  for (const [part, errno] of CASES)
    it(`(${part}: ${errno}) loses no task, buries those that ask for it, and repeats no at-most-once task that ended`, async () => {
      const spool = spoolDirectory()
      const first = await runRefused(spool, CALLS[part], errno)
      const second = await start(spool)
      const isOver = async () => {
        const fates = await fatesOf(spool, second)
        return fates.every(({ isLeft }) => !isLeft) ? fates : undefined
      }
      const fates = await until('all tasks are settled', isOver, 15_000).catch(() => fatesOf(spool, second))
      const describe = (n: string) =>
        `${n}: ${JSON.stringify({ ...fates.find(fate => fate.n === n), record: recordOf(spool, n) })}\n${first.output}\n---\n${second.output}`
      for (const { n, answer, delivery, starts, oks, reason, isLeft } of fates) {
        assert.ok(oks > 0 || reason !== undefined || isLeft, `${describe(n)}\nis silently gone`)
        assert.ok(!isLeft, `${describe(n)}\nis still there`)
        if (answer === 'bury') assert.ok(reason !== undefined, `${describe(n)}\nis not buried`)
        const isKnownEnd = answer === 'ok' || answer === 'bury'
        if (delivery === 'at-most-once') {
          assert.ok(starts <= (isKnownEnd ? 1 : 2), `${describe(n)}\nstarted ${starts} times`)
          assert.ok(starts === 1 || !isKnownEnd, `${describe(n)}\nnever started`)
        } else if (isKnownEnd && !CALLS[part].includes('pwrite64'))
          assert.equal(starts, 1, `${describe(n)}\nstarted ${starts} times`)
      }
    })
})
