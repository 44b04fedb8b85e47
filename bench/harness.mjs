// Shared by all benchmarks: files, processes, and figures with their spread.
import { execFileSync, spawn } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { encodePacket } from '../build/src/formats/protocol/packet.js'

// with NODE_EXTRA_CA_CERTS set, each Node process reads all certificates at its start, which takes a quarter of a second
delete process.env.NODE_EXTRA_CA_CERTS

export const ROOT = fileURLToPath(new URL('..', import.meta.url))
export const BIN = join(ROOT, 'bin/spoold.js')

/** Calls `use` with a temporary directory in memory (to measure CPU work) or on disk, and removes the directory. */
export async function withDirectory(kind, use) {
  const path = mkdtempSync(join(kind === 'memory' ? '/dev/shm' : tmpdir(), 'spoold-bench-'))
  try {
    return await use(path)
  } finally {
    rmSync(path, { recursive: true, force: true })
  }
}

/** Creates typical spool files: uWSGI's names, three short keys. @param from the number of the first one */
export function fill(directory, count, { at, from = 1 } = {}) {
  mkdirSync(directory, { recursive: true, mode: 0o755 })
  for (let i = from; i < from + count; i++) {
    const path = `${directory}/uwsgi_spoolfile_on_bench_1234_${i}_${840383826 + i}_1795238706_${i % 1_000_000}`
    const vars = Object.entries({ hello: 'world', n: String(i), foo: 'bar' })
    writeFileSync(path, encodePacket(vars.map(pair => pair.map(text => Buffer.from(text)))), { mode: 0o600 })
    if (at !== undefined) utimesSync(path, at, at)
  }
}

/** Returns the number of tasks left without listing the directory: on tmpfs, an entry adds 20 bytes to its size. */
export const leftOnTmpfs = directory => statSync(directory).size / 20 - 2
/** Returns the number of tasks left by the inodes in use, for a file system that nothing else uses. */
export const inodesUsed = directory => {
  const { files, ffree } = statfsSync(directory)
  return files - ffree
}

export async function until(what, probe, timeoutMs = 120_000, stepMs = 4) {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const value = await probe()
    if (value) return value
    if (performance.now() > deadline) throw new Error(`waited in vain until ${what}`)
    await setTimeout(stepMs)
  }
}

/** Starts the daemon to measure. Its output goes to a file, as in a service. */
export function start(command, args, logFile) {
  const child = spawn('sh', ['-c', `exec ${command} "$@" > "${logFile}" 2>&1`, 'sh', ...args], {
    stdio: 'ignore',
  })
  return {
    pid: child.pid,
    log: () => (existsSync(logFile) ? readFileSync(logFile, 'utf8') : ''),
    async stop() {
      child.kill('SIGINT')
      if (child.exitCode === null && child.signalCode === null)
        await new Promise(resolve => child.once('exit', resolve))
    },
  }
}

const NOOP_JS = 'export default (env, task) => task.SPOOL_OK\n'
const NOOP_PY = 'import uwsgi\ndef spooler(env): return uwsgi.SPOOL_OK\nuwsgi.spooler = spooler\n'

/** A daemon that accepts tasks over a socket and runs none. */
export function startTaker(directory, spool, options = []) {
  return startSpoold(
    directory,
    spool,
    ['--spooler-quiet', '--socket', '127.0.0.1:0', ...options],
    '--spooler-external',
  )
}

export function startSpoold(directory, spool, options = [], spoolerFlag = '--spooler', source = NOOP_JS) {
  const handler = join(directory, 'noop.mjs')
  writeFileSync(handler, source)
  return start(
    process.execPath,
    [BIN, spoolerFlag, spool, '--spooler-import', handler, ...options],
    join(directory, 'log'),
  )
}

export function startUwsgi(directory, spool, options = [], spoolerFlag = '--spooler') {
  const handler = join(directory, 'noop.py')
  writeFileSync(handler, NOOP_PY)
  const args = [
    '--plugin',
    'python3',
    '--master',
    '--spooler-frequency',
    '1',
    '--import',
    handler,
    spoolerFlag,
    spool,
    ...options,
  ]
  return start('uwsgi', args, join(directory, 'log'))
}

export function isInstalled(command, args = ['--version']) {
  try {
    execFileSync(command, args, { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

export const median = numbers => {
  const sorted = [...numbers].sort((a, b) => a - b)
  const middle = sorted.length / 2
  return sorted.length % 2 === 1 ? sorted[Math.floor(middle)] : (sorted[middle - 1] + sorted[middle]) / 2
}

export const percentile = (numbers, p) =>
  [...numbers].sort((a, b) => a - b)[Math.min(numbers.length - 1, Math.ceil((numbers.length * p) / 100) - 1)]

/** The file system of temporary files; for ext4, also whether it has a journal. */
export function diskKind() {
  const [device = '', type = ''] = execFileSync('df', ['--output=source,fstype', tmpdir()], {
    encoding: 'utf8',
  })
    .split('\n')[1]
    .split(/\s+/)
  const name = device.replace('/dev/', '')
  const hasJournal =
    type !== 'ext4' ||
    (existsSync('/proc/fs/jbd2') ? readdirSync('/proc/fs/jbd2') : []).some(each =>
      each.startsWith(`${name}-`),
    )
  return `${type}${hasJournal ? '' : ' without a journal'}${name.startsWith('loop') ? ' in a file' : ''}`
}

/**
 * Runs ours and the peer alternately, so that both see the same machine, and returns the ratio of each pair. Each run
 * returns named figures (larger is better); each figure gets its own ratio.
 */
export async function inPairs(pairs, ours, peer, progress) {
  const results = []
  for (let i = 0; i < pairs; i++) {
    // alternate the first one: it leaves the caches in another state for the second
    const [first, second] = i % 2 === 0 ? [ours, peer] : [peer, ours]
    const [a, b] = [await first(), await second()]
    const [mine, theirs] = i % 2 === 0 ? [a, b] : [b, a]
    results.push({ mine, theirs })
    progress?.(mine, theirs)
  }
  return Object.keys(results[0].mine).map(name => {
    const ratios = results.map(({ mine, theirs }) => mine[name] / theirs[name])
    return {
      name,
      mine: median(results.map(({ mine }) => mine[name])),
      theirs: median(results.map(({ theirs }) => theirs[name])),
      ratio: median(ratios),
      low: Math.min(...ratios),
      high: Math.max(...ratios),
    }
  })
}

/** A memory figure from /proc/PID/status, in MB: VmHWM or VmRSS. */
export function memoryOf(pid, field = 'VmHWM') {
  return (
    Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) /
    1024
  )
}

export function cpuSecondsOf(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}

export const childrenOf = pid =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)
