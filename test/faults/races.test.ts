import assert from 'node:assert/strict'
import { lstatSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { leftIn, packet } from '../helpers/files.js'
import { ACTS, startRacer } from '../helpers/racer.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { ROOT, spoolDirectory } from '../helpers/workspace.js'

const RACES = isLong ? 100_000 : 6000
const RACERS = 2

const HANDLER = `export default (env, task) => {
  JOURNAL(env.n)
  return env.ms === undefined ? task.SPOOL_OK : new Promise(resolve => setTimeout(() => resolve(task.SPOOL_OK), Number(env.ms)))
}`
const INI = {
  'spooler-frequency': 1,
  'spooler-grace': 1,
  'spooler-processes': 2,
  'spooler-ordered': true,
  'spooler-quiet': true,
  // A file that comes back in the middle of a run from where it was moved counts a crash.
  'spooler-max-crashes': 0,
}

interface Arena {
  readonly spool: string
  readonly outside: string
  readonly bait: Buffer
}

function arena(): Arena {
  const spool = spoolDirectory()
  const outside = join(dirname(spool), 'outside')
  mkdirSync(outside)
  const bait = packet({ n: 'bait' }, 'a body')
  writeFileSync(join(outside, 'bait'), bait)
  return { spool, outside, bait }
}

async function race({ spool, outside }: Arena, races: number): Promise<Record<string, number>> {
  const racers = Array.from({ length: RACERS }, (_, i) =>
    startRacer({ spool, outside, name: `r${i}`, races: Math.ceil(races / RACERS) }),
  )
  const tally: Record<string, number> = {}
  for (const racer of racers) {
    assert.equal(await racer.code(1_000_000), 0, racer.output)
    for (const [act, won] of Object.entries<number>(JSON.parse(racer.output)))
      tally[act] = (tally[act] ?? 0) + won
  }
  return tally
}

/** Checks that every task that was left whole has run, and that nothing else was touched. */
async function assertFair(daemon: Daemon, { spool, outside, bait }: Arena): Promise<void> {
  const required = Array.from({ length: RACERS }, (_, i) =>
    readFileSync(join(outside, `required-r${i}`), 'utf8').split('\n'),
  ).flat()
  assert.ok(required.length > 100)
  const missing = () => {
    const ran = new Set(daemon.journal())
    return required.filter(n => !ran.has(n))
  }
  await until('all whole tasks have run', () => missing().length === 0, 10_000).catch(() => {})
  assert.deepEqual(missing(), [], 'these whole tasks were stored, and did not run')
  assert.ok(!daemon.journal().includes('bait'), 'a link was followed')
  assert.deepEqual(readFileSync(join(outside, 'bait')), bait)
  // A file that cannot be a task is left, or is a dead letter.
  await until('no task is left', () =>
    leftIn(spool).every(name => {
      const stats = lstatSync(join(spool, name), { throwIfNoEntry: false })
      return stats === undefined || !stats.isFile() || stats.size < 30
    }),
  )
  assert.ok(daemon.isRunning)
}

describe('races for the files of a spool', { skip: skipUnless('mkfifo') }, () => {
  it(`remove nothing that was not run, whatever took the place of a task that ran, in ${RACES} races`, async t => {
    const setup = arena()
    const daemon = await startDaemon({ spool: setup.spool, handler: HANDLER, ini: INI })
    const tally = await race(setup, RACES)
    t.diagnostic(JSON.stringify(tally))
    for (const act of ACTS) assert.ok((tally[act] ?? 0) > RACES / 500, `${act} was won ${tally[act]} times`)
    await assertFair(daemon, setup)
  })

  it('open, make and remove nothing outside of the spool', { skip: skipUnless('strace') }, async () => {
    const setup = arena()
    const log = join(dirname(setup.spool), 'strace')
    const daemon = await startDaemon({
      spool: setup.spool,
      handler: HANDLER,
      ini: { ...INI, 'spooler-processes': 1 }, // no other worker that starts later, and loads what it needs
      under: ['strace', '-f', '-y', '--seccomp-bpf', '-s', '4096', '-e', `trace=${TOUCHES}`, '-o', log],
    })
    const before = readFileSync(log, 'utf8')
    const known = new Set(before.split('\n').map(line => line.split(' ', 1)[0]))
    // Excepts a process aside that starts meanwhile, and loads what it needs.
    const isStart = (line: string) =>
      !known.has(line.split(' ', 1)[0]) &&
      line.includes('O_RDONLY') &&
      !line.includes(`"${dirname(setup.spool)}/`)
    await race(setup, isLong ? 4000 : 600)
    await assertFair(daemon, setup)
    const lines = readFileSync(log, 'utf8').slice(before.length).split('\n')
    const touches = lines.filter(line => pathsIn(line).some(path => path.startsWith(`${setup.spool}/`)))
    assert.ok(touches.length > 600, `strace saw ${touches.length} calls in the spool`)
    assert.deepEqual(
      lines.filter(line => isStray(line, setup.spool) && !isStart(line)),
      [],
    )
  })
})

/** The system calls that open, make, change or remove something by its path. */
const TOUCHES =
  'open,openat,creat,mkdir,mkdirat,mknod,mknodat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir,chmod,fchmodat,chown,fchownat,utimensat,truncate'

/** Returns the paths of a call, as `strace -y` shows them; a path below a descriptor begins with that of the descriptor. */
function pathsIn(line: string): string[] {
  const call = /^\d+\s+\w+\((.*)/.exec(line)?.[1] ?? ''
  const named = call.matchAll(/(?:\d+<([^>]*)>, )?"((?:[^"\\]|\\.)*)"/g)
  return [...named].map(([, below, name = '']) =>
    below === undefined || name.startsWith('/') ? name : `${below}/${name}`,
  )
}

/** True if the call has a path that is neither in the spool nor needed by Node or the handler. */
function isStray(line: string, spool: string): boolean {
  return pathsIn(line).some(path => {
    if (/(^|\/)\.\.(\/|$)/.test(path)) return true
    if (path === spool || path.startsWith(`${spool}/`)) return false
    return !OWN.some(own => path.startsWith(own)) && path !== join(dirname(spool), 'journal')
  })
}

const OWN = [
  `${ROOT}build`,
  `${ROOT}dist`,
  `${ROOT}node_modules`,
  `${ROOT}package.json`,
  '/proc/',
  '/sys/',
  '/dev/null',
  '/etc/',
]
