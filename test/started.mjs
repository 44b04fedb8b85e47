// The processes that a test file has started, whatever parent, group and session they have by now.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const MARK = fileURLToPath(new URL('mark.mjs', import.meta.url))
const LONGEST_COMMAND = 150
const ROUND_MS = 50
/** How often processes are ended, because some begin others while they are ended. */
const MAX_ROUNDS = 100
const TICKS_PER_S = 100

/** Gives whatever a test file starts from now on the file's name in its environment; its process tells `usage` what it took. */
export function markWhatStarts(usage) {
  process.env.SPOOLD_TEST_USAGE = usage
  process.env.SPOOLD_TEST_RUN = String(process.pid)
  delete process.env.SPOOLD_TEST_FILE // a run inside a test marks its own files
  const load = `--import=${MARK}`
  if (!process.execArgv.includes(load)) process.execArgv.push(load) // `run` passes it on
}

/** Returns the file in which the process of a test file says at its end what it took (mark.mjs). */
export const usageFile = (directory, path) => `${directory}/${path.replaceAll('/', '%').slice(-200)}`

/** Returns the processor time of this process and of the children it has waited for, theirs included, in seconds. */
export function cpuSeconds() {
  const fields = read('/proc/self/stat')
    .replace(/^.*\) /s, '')
    .split(' ')
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS_PER_S
}

/** Returns the file's own process and all that it has started, as pids and command lines; without a file, those of all files. */
export function startedBy(file) {
  const mark = `SPOOLD_TEST_FILE=${process.pid} ${file ?? ''}`
  const isMarked = pair => (file === undefined ? pair.startsWith(mark) : pair === mark)
  const all = readdirSync('/proc').flatMap(look)
  const found = new Set(
    all.filter(
      ({ parent, args, env }) =>
        (parent === process.pid && (file === undefined || args.includes(file))) || env.some(isMarked),
    ),
  )
  for (const each of found) for (const child of all) if (child.parent === each.pid) found.add(child)
  return [...found].map(({ pid, args }) => {
    const command = args.join(' ').trim().slice(0, LONGEST_COMMAND)
    return { pid, command: `${command} (in ${workingDirectoryOf(pid)})` }
  })
}

/** Ends a file's own process and what it has started, before anything else happens here. @returns what that was */
export function endStartedBy(file) {
  const ended = new Map()
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const found = startedBy(file)
    if (found.length === 0) break
    for (const { pid, command } of found) {
      ended.set(pid, command)
      endQuietly(pid)
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ROUND_MS)
  }
  return [...ended].map(([pid, command]) => `${pid} ${command}`)
}

/** Returns a process that is alive, in a list; without an environment if that may not be read. */
function look(name) {
  if (!/^\d+$/.test(name)) return []
  const [state = 'X', parent] = read(`/proc/${name}/stat`)
    .replace(/^.*\) /s, '')
    .split(' ')
  if ('ZX'.includes(state)) return []
  const [args, env] = ['cmdline', 'environ'].map(each => read(`/proc/${name}/${each}`).split('\0'))
  return [{ pid: Number(name), parent: Number(parent), args, env }]
}

function workingDirectoryOf(pid) {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return '?'
  }
}

/** Returns the text of a file; '' if its process is gone. */
function read(file) {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}

function endQuietly(pid) {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {}
}
