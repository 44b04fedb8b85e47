import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { constants as os } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { COMMANDS } from '#src/doors/cli/command-table.js'
import { spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn, packet } from '../helpers/files.js'
import { socketsOf } from '../helpers/proc.js'
import { childrenOf, isAlive, TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { patience, stopwatch, until } from '../helpers/until.js'
import { BIN, spoolDirectory, workspace } from '../helpers/workspace.js'

const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const
type Signal = keyof typeof SIGNALS

/** More lines than a pipe, and what a command keeps for it, can hold. */
const TASKS = 900
const LONG = 'x'.repeat(200)
/** Another user than root, so that commands of root become this user, and load libraries for that. */
const USER = 65_533
const isRoot = process.getuid?.() === 0

/** Listens for signals, at the start and later, and does nothing about them, as observation tools and the lock library do. */
const LISTENER = join(workspace(), 'listener.cjs')
writeFileSync(
  LISTENER,
  `for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {})
    setImmediate(() => process.on(signal, () => {}))
    setTimeout(() => process.on(signal, () => {}), 50).unref()
  }`,
)

/** Adds listeners all the time, and keeps the event loop for a while after each, as a library does that is being loaded. */
const ADDER = join(workspace(), 'adder.cjs')
writeFileSync(
  ADDER,
  `setInterval(() => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {})
    for (const end = performance.now() + 20; performance.now() < end; );
  }, 1).unref()`,
)

function give(path: string): void {
  if (isRoot) chownSync(path, USER, USER)
}

function usersSpool(): string {
  const spool = spoolDirectory()
  chmodSync(dirname(spool), 0o755)
  give(spool)
  return spool
}

/** Returns a spool with TASKS tasks. @param below the directory in the spool that holds them */
function filled(below = ''): string {
  const spool = usersSpool()
  for (const directory of ['.spoold', ...(below === '' ? [] : [below])]) {
    mkdirSync(join(spool, directory), { recursive: true, mode: 0o700 })
    give(join(spool, directory))
  }
  for (let i = 0; i < TASKS; i++) {
    const path = join(spool, below, `task-${i}-${LONG}`)
    writeFileSync(path, packet({ n: String(i), at: '9999999999' }), { mode: 0o600 })
    give(path)
  }
  return spool
}

async function after1(spool: string, ...args: string[]): Promise<string> {
  const { code, stderr } = await spoold([...args, '--quiet', '--all', spool])
  assert.equal(code, 0, stderr)
  return spool
}

/** Returns a pipe, which holds fewer lines than a command prints. Both ends are closed with the test. */
function pipe(): { reader: number; writer: number } {
  const path = join(workspace(), 'pipe')
  execFileSync('mkfifo', [path])
  const reader = openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
  const writer = openSync(path, constants.O_WRONLY)
  after(() => [reader, writer].forEach(closeSync))
  return { reader, writer }
}

/** Returns a full pipe that nobody reads: whoever prints into it is blocked. */
function fullPipe(): number {
  const { reader, writer } = pipe()
  for (const block of [Buffer.alloc(4096), Buffer.alloc(1)])
    try {
      for (;;) writeSync(reader, block)
    } catch {} // EAGAIN
  return writer
}

const CHUNK = Buffer.alloc(64 * 1024)
/** Returns what is in a pipe now. @param most bytes */
function readNow(reader: number, most = CHUNK.length): string {
  try {
    return CHUNK.toString('latin1', 0, readSync(reader, CHUNK, 0, most, null))
  } catch {
    return '' // EAGAIN
  }
}

/** True if a thread of the process waits for the reader of a pipe. */
function isBlocked(pid: number): boolean {
  return readdirSync(`/proc/${pid}/task`).some(thread =>
    /pipe_w/.test(readQuietly(`/proc/${pid}/task/${thread}/wchan`)),
  )
}

function readQuietly(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/** A command, and the moment in which it is interrupted. */
interface Scene {
  readonly args: readonly string[]
  /** True once the command has begun; by default, once it is blocked because it prints. */
  hasBegun?(): boolean
  /** What the command says when it is interrupted. */
  readonly says?: RegExp
  /** True if something is left undone. */
  isCutShort?(): boolean
}

async function interrupt({ args, hasBegun }: Scene, signal: Signal, stdout: number, library = LISTENER) {
  const child = spawn(process.execPath, ['--require', library, BIN, ...args], {
    stdio: ['ignore', stdout, 'pipe'],
  })
  let stderr = ''
  child.stderr?.on('data', chunk => (stderr += chunk))
  const exited = new Promise<number>(resolve => {
    child.once('exit', (code, by) => resolve(code ?? 128 + os.signals[by ?? 'SIGKILL']))
  })
  const { pid = 0 } = child
  await until(`spoold ${args[0]} has begun`, () => {
    if (child.exitCode !== null) throw new Error(`spoold ${args.join(' ')} has ended: ${stderr}`)
    return hasBegun?.() ?? isBlocked(pid)
  })
  const tookMs = stopwatch(pid)
  child.kill(signal)
  const late = setTimeout(() => child.kill('SIGKILL'), 10_000 * patience())
  const code = await exited
  clearTimeout(late)
  return { code, tookMs: tookMs(), stderr }
}

/** What each command that changes something is doing when a signal comes. */
const CHANGES: Readonly<Record<string, () => Scene | Promise<Scene>>> = {
  ...Object.fromEntries(
    [
      ['rm', 'removed', [], filled],
      ['cancel', 'cancelled', [], filled],
      ['kick', 'kicked', [], filled],
      ['hold', 'held', [], filled],
      ['release', 'released', [], () => after1(filled(), 'hold')],
      ['requeue', 'requeued', [], () => filled('.spoold/dead')],
      ['move', 'moved', ['--to', usersSpool()], filled],
    ].map(([command, done, more, setUp]) => [
      command,
      async () => ({
        args: [command, '--all', ...(more as string[]), await (setUp as () => string)()] as string[],
        says: new RegExp(`^spoold: interrupted: [0-9]+ of 900 ${done}`, 'm'),
      }),
    ]),
  ),
  purge: () => {
    const spool = filled('.spoold/dead')
    const left = () => readdirSync(join(spool, '.spoold/dead')).length
    return {
      args: ['purge', '--all', spool],
      hasBegun: () => left() < TASKS,
      says: /^spoold: interrupted: [0-9]+ of 900 removed/m,
    }
  },
  fsck: () => ({
    args: ['fsck', '--repair', filled('.spoold/dead')],
    says: /^spoold: interrupted: [0-9]+ repaired/m,
  }),
  enqueue: () => {
    const input = join(workspace(), 'tasks')
    const spool = usersSpool()
    writeFileSync(input, Array.from({ length: 5000 }, (_, i) => `{"n":${i}}\n`).join(''))
    return {
      args: ['enqueue', '--spooler', spool, '--json', input],
      says: /^spoold: interrupted: [0-9],000 stored/m,
      isCutShort: () => leftIn(spool).length < 5000,
    }
  },
  pause: () => spools('pause', 'paused'),
  resume: () => spools('resume', 'resumed'),
  quiet: () => ({ args: ['quiet', served], says: /^spoold: interrupted: 1 of 1 daemon told/m }),
  scale: () => ({ args: ['scale', served, '1'], says: /^spoold: interrupted: 1 of 1 spool scaled/m }),
  schedules: () => ({
    args: ['schedules', '--run', schedule, served],
    says: /^spoold: interrupted: 1 of 1 spool done/m,
  }),
  signal: () => ({ args: ['signal', '17', '--socket', mute.path], hasBegun: () => mute.count > 0 }),
  token: () => {
    const file = join(workspace(), 'tokens')
    return { args: ['token', file, '--name', 'joe', '--role', 'viewer'] }
  },
}

function spools(command: string, done: string): Scene {
  const all = Array.from({ length: 300 }, () => join(usersSpool()))
  return {
    args: [command, ...all],
    says: new RegExp(`^spoold: interrupted: [0-9]+ of 300 spools ${done}`, 'm'),
  }
}

/** The arguments of the other commands, each of which prints something. */
const LOOKS: Readonly<Record<string, () => readonly string[]>> = {
  check: () => ['check', config],
  config: () => ['config', config],
  scaling: () => ['scaling', '--pattern', 'idle', config],
  doctor: () => ['doctor', config],
  unit: () => ['unit', config],
  status: () => ['status', served],
  logs: () => ['logs', served],
  shape: () => ['shape', looked],
  ls: () => ['ls', looked],
  show: () => ['show', `${looked}/task-0-${LONG}`],
  wait: () => ['wait', gone],
  completion: () => ['completion', 'bash'],
  'python-library': () => ['python-library'],
}

const served = spoolDirectory()
const looked = filled()
const daemon = await startDaemon({
  spool: served,
  ini: { timer: '17 3600', 'spooler-concurrency': 9 },
  handler: `export default (env, task) => {
    JOURNAL(task.name)
    return env.block === undefined ? task.SPOOL_OK : new Promise(() => {})
  }`,
})
const config = daemon.iniFile
const gone = (await spoold(['enqueue', '--spooler', served, 'a=b'])).stdout.trim()
await daemon.waitFor(/done with task/)
const schedule: string = JSON.parse((await spoold(['schedules', '--json', served])).stdout).id
const mute = { path: join(workspace(), 'mute'), count: 0 }
const server = createServer(() => mute.count++).listen(mute.path)
after(() => server.close())

describe('a signal', { skip: skipUnless('mkfifo') }, () => {
  it('is tried on every command of the table', () => {
    const known = [...Object.keys(CHANGES), ...Object.keys(LOOKS), 'top'] // top draws: top.test.ts
    assert.deepEqual(
      COMMANDS.map(({ name }) => name).filter(name => !known.includes(name)),
      [],
    )
  })

  for (const [name, scene] of Object.entries(CHANGES))
    it(`ends spoold ${name} within a second, and the command reports how far it got`, async () => {
      const made = await scene()
      const { code, tookMs, stderr } = await interrupt(made, 'SIGINT', fullPipe())
      assert.equal(code, 130, stderr)
      assert.ok(tookMs < 1000, `it took ${tookMs} ms`)
      if (made.says !== undefined) assert.match(stderr, made.says)
      if (made.isCutShort !== undefined) assert.ok(made.isCutShort(), stderr)
    })

  for (const signal of Object.keys(SIGNALS) as Signal[])
    it(`ends a command that waits, even if it comes while a library adds a listener of its own: ${signal}`, async () => {
      for (let i = 0; i < 5; i++) {
        const before = mute.count
        const scene = { args: ['signal', '17', '--socket', mute.path], hasBegun: () => mute.count > before }
        const { code, stderr } = await interrupt(scene, signal, fullPipe(), ADDER)
        assert.equal(code, SIGNALS[signal], stderr)
      }
    })

  for (const [name, args] of Object.entries(LOOKS))
    it(`ends spoold ${name} within a second while it prints`, async () => {
      const { code, tookMs, stderr } = await interrupt({ args: args() }, 'SIGINT', fullPipe())
      assert.equal(code, 130, stderr)
      assert.ok(tookMs < 1000, `it took ${tookMs} ms`)
    })

  for (const [signal, wanted] of Object.entries(SIGNALS))
    it(`ends rm --all after the current tasks, and it reports how many it removed: ${signal}`, async () => {
      const spool = filled()
      const { reader, writer } = pipe()
      const child = spawn(process.execPath, ['--require', LISTENER, BIN, 'rm', '--all', spool], {
        stdio: ['ignore', writer, 'pipe'],
      })
      let stderr = ''
      child.stderr?.on('data', chunk => (stderr += chunk))
      const exited = new Promise(resolve => child.once('close', resolve))
      let stdout = await until('the command has removed a task', () => readNow(reader, 1) || undefined)
      const tookMs = stopwatch(child.pid ?? 0)
      child.kill(signal as Signal)
      await until('the command has ended, and all that it printed is read', () => {
        const hasEnded = child.exitCode !== null || child.signalCode !== null
        const more = readNow(reader)
        stdout += more
        return hasEnded && more === ''
      })
      const tookInAll = tookMs()
      assert.equal(await exited, wanted, stderr)
      assert.ok(tookInAll < 1000, `it took ${tookInAll} ms`)
      const [, done] = /^spoold: interrupted: (\d+) of 900 removed\n$/.exec(stderr) ?? []
      const removed = TASKS - leftIn(spool).length
      assert.deepEqual([Number(done), stdout.split('\n').length - 1], [removed, removed], stderr)
      assert.ok(removed > 0 && removed < TASKS, String(removed))
    })

  for (const [what, count] of [
    ['ends a command within a second, even if its current task takes longer', 1],
    ['ends a command at once if it comes twice', 2],
  ] as const)
    it(what, async () => {
      assert.equal((await spoold(['quiet', served, 'off'])).code, 0)
      const { stdout: task } = await spoold(['enqueue', '--spooler', served, 'block=yes'])
      await until('the task runs', () => daemon.journal().includes(basename(task.trim())))
      const child = new TestProcess(process.execPath, [BIN, 'cancel', task.trim()])
      // before the audit names the task, the command has other sockets: it may ask a service who its user is
      const isAnnounced = () => readQuietly(join(served, '.spoold/audit')).includes(basename(task.trim()))
      await until('the command asks the daemon', () => isAnnounced() && socketsOf(child.pid) > 0)
      const sinceSent = stopwatch(child.pid)
      const sentAt = performance.now()
      child.child.kill('SIGINT')
      if (count > 1) {
        await until(
          'the second signal cannot pass for an echo of the first',
          () => performance.now() - sentAt > 300,
        )
        child.child.kill('SIGINT')
      }
      assert.equal(await child.code(), 130)
      const tookMs = sinceSent()
      assert.ok(tookMs < (count > 1 ? 650 : 1000), `it took ${tookMs} ms`)
      assert.equal(child.output, 'spoold: interrupted: 0 of 1 cancelled; 1 more may be cancelled by now\n')
    })

  for (const [what, before, isTold] of [
    ['under a shell that traps SIGHUP', 'trap : HUP;', true],
    ['without a shell', 'exec', false],
  ] as const)
    it(`ends a command whose terminal closes, ${what}`, { skip: skipUnless('script') }, async () => {
      const spool = filled()
      const report = join(workspace(), 'report')
      const then = isTold ? `; echo $? > '${report}'` : ''
      const command = `${before} '${process.execPath}' '${BIN}' rm --all '${spool}'${then}`
      const { reader, writer } = pipe()
      const terminal = spawn('script', ['-qec', command, '/dev/null'], { stdio: ['pipe', writer, 'ignore'] })
      await until('the command has removed a task', () => readNow(reader, 1) !== '')
      const pids = descendantsOf(terminal.pid ?? 0)
      terminal.kill('SIGKILL')
      await until('all processes have ended', () => !pids.some(isAlive))
      if (isTold) assert.equal(readFileSync(report, 'utf8'), '129\n')
      const left = leftIn(spool).length
      assert.ok(left > 0 && left < TASKS, String(left))
    })
})

function descendantsOf(pid: number): number[] {
  return childrenOf(pid).flatMap(child => [child, ...descendantsOf(child)])
}
