// The cost of running and of scheduling a named task beside that of a dictionary, in instructions, because times depend on what
// else the machine does; and the cost of events for the master while nobody listens, in ns.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { TellingPort } from '../build/src/api/embed/telling-port.js'
import { encodePacket } from '../build/src/formats/protocol/packet.js'
import { EventHub, watchAll } from '../build/src/runtime/tasks/event-hub.js'
import { BIN, inPairs, isInstalled, ROOT, withDirectory } from './harness.mjs'

const INDEX = JSON.stringify(join(ROOT, 'dist/index.js'))
const RUN = 60_000
const SCHEDULE = 40_000
const UNHEARD = 5_000_000

/** For each kind, a no-op handler whose tasks are delivered at least once, and the packets of its tasks. */
const KINDS = {
  dictionary: {
    handler: 'export default (env, task) => task.SPOOL_OK\n',
    packet: n => ({ hello: 'world', n: String(n), foo: 'bar' }),
  },
  named: {
    handler: `import { Tasks } from 'spoold'
export const tasks = new Tasks({ maxRetries: 1 })
tasks.task('noop', (_n) => {})\n`,
    packet: n => ({ task: 'noop', args: `[${n}]`, id: crypto.randomUUID() }),
  },
}

/** Returns the instructions of a program and all of its children, in millions. */
function instructionsOf(directory, args) {
  const file = join(directory, 'instructions')
  const words = ['stat', '-x,', '-o', file, '-e', 'instructions:u,instructions:k', process.execPath, ...args]
  const { status, stderr } = spawnSync('perf', words, {
    encoding: 'utf8',
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  if (status !== 0) throw new Error(`exit ${status}: ${stderr}`)
  const counts = readFileSync(file, 'utf8').match(/^\d+(?=,)/gm) ?? []
  return counts.reduce((sum, count) => sum + Number(count), 0) / 1e6
}

/** Returns the instructions of a daemon's whole life with `count` tasks. */
function lifeOf({ handler, packet }, count) {
  return withDirectory('memory', directory => {
    const [spool, file] = ['spool', 'handler.mjs'].map(name => join(directory, name))
    mkdirSync(spool)
    writeFileSync(file, handler)
    for (let n = 0; n < count; n++) {
      const vars = Object.entries(packet(n)).map(pair => pair.map(text => Buffer.from(text)))
      writeFileSync(
        join(spool, `uwsgi_spoolfile_on_bench_1_${n}_1_1795238706_${n % 1_000_000}`),
        encodePacket(vars),
      )
    }
    const options = ['--drain', '--spooler-processes', '1', '--spooler-quiet']
    return instructionsOf(directory, [BIN, ...options, '--spooler', spool, '--spooler-import', file])
  })
}

const WAYS = {
  dictionary: `spool({ hello: 'world', n: String(i), foo: 'bar' }, to)`,
  named: 'noop.schedule(i)',
}

/** Returns the instructions of a program that stores `count` tasks, one after the other. */
function storing(way, count) {
  return withDirectory('memory', directory => {
    const file = join(directory, 'store.mjs')
    const to = `{ spooler: ${JSON.stringify(join(directory, 'spool'))}, sync: false }`
    writeFileSync(
      file,
      `import { spool, Tasks } from ${INDEX}
const to = ${to}
const noop = new Tasks(to).task('noop', _n => {})
for (let i = 0; i < ${count}; i++) await ${way}\n`,
    )
    return instructionsOf(directory, [file])
  })
}

/** Returns tasks per million instructions. What the process itself takes is subtracted, as measured with a few tasks. */
async function rate(measure, what, count) {
  const few = Math.round(count / 20)
  const [small, large] = [await measure(what, few), await measure(what, count)]
  return { 'tasks per million instructions': (count - few) / (large - small) }
}

/** The messages of a worker about a task that it is given alone. */
const MESSAGES = [
  { type: 'claimed', claims: [] },
  { type: 'started', number: 1 },
  { type: 'reports', reports: [] },
]

/** Measures how long a master takes to hear of a task, in ns. @param isTold with the code that would tell listeners */
function hearing(isTold, count) {
  let hear
  const port = {
    pid: 1,
    whenExited: new Promise(() => {}),
    listen(each) {
      hear = each
    },
    send() {},
  }
  const hubs = [new EventHub(), new EventHub()] // the hub of the application, and the hub of all
  const context = {
    name: 'default-1',
    queue: 'default',
    tell() {},
    watch: changed => watchAll(hubs, changed),
  }
  let heard = 0
  ;(isTold ? new TellingPort(port, context) : port).listen(({ type }) => {
    heard += type.length
  })
  hear({ type: 'ready' })
  const since = performance.now()
  for (let n = 0; n < count; n++) for (const message of MESSAGES) hear(message)
  const ns = (1e6 * (performance.now() - since)) / count
  if (heard < count) throw new Error('it did not hear')
  return { 'ns per task': ns }
}

async function unheard(pairs, count, say) {
  for (const isTold of [true, false]) hearing(isTold, count / 10) // until the code is compiled
  const [figure] = await inPairs(
    pairs,
    () => hearing(true, count),
    () => hearing(false, count),
    (mine, theirs) => {
      const [[a], [b]] = [Object.values(mine), Object.values(theirs)]
      say(`events, unheard: ${a.toFixed(1)} ns, without them ${b.toFixed(1)} ns`)
    },
  )
  return { case: 'events, unheard', ...figure, target: 'at most 1000 ns more' }
}

export const title = 'Named tasks'
export const about = `tmpfs, one process, no-op tasks with one argument beside dictionaries of three keys, both delivered at least once; tasks
per million instructions (perf stat, user and kernel, of all processes), without those of a start. "spoold" is the named
task, "Peer" the dictionary: to run one, and to store one (\`schedule\` beside \`spool\`, without syncs). "events, unheard": what
a master hears from a worker about one task, with the code that tells of events while nobody listens, and ("Peer") without it.`

export async function run({ pairs, scale, say }) {
  const rows = []
  if (isCounting()) rows.push(...(await besideDictionaries(pairs, scale, say)))
  rows.push(await unheard(pairs, Math.round(UNHEARD * scale), say))
  return { rows }
}

/** True if the machine counts instructions. A virtual machine may have no counters. */
function isCounting() {
  if (!isInstalled('perf')) return false
  const { stderr } = spawnSync('perf', ['stat', '-x,', '-e', 'instructions:u', 'true'], { encoding: 'utf8' })
  return /^\d/m.test(stderr)
}

async function besideDictionaries(pairs, scale, say) {
  const rows = []
  const cases = [
    ['run', lifeOf, KINDS, Math.round(RUN * scale), 1.15],
    ['store', storing, WAYS, Math.round(SCHEDULE * scale), 1.1],
  ]
  for (const [name, measure, { named, dictionary }, count, most] of cases) {
    const figures = await inPairs(
      pairs,
      () => rate(measure, named, count),
      () => rate(measure, dictionary, count),
      (mine, theirs) => {
        const [[a], [b]] = [Object.values(mine), Object.values(theirs)]
        say(
          `${name}: named ${a.toFixed(2)}, dictionary ${b.toFixed(2)}: ${(b / a).toFixed(3)} × the instructions`,
        )
      },
    )
    for (const figure of figures) rows.push({ case: name, ...figure, target: 1 / most })
  }
  return rows
}
