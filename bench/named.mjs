// What named tasks cost beside dictionaries: running one, and scheduling one. Instructions, because times depend on what else
// the machine does. And what their events cost while nobody listens: CPU time, of a process that does nothing else.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { encodePacket } from '../build/src/protocol/packet.js'
import { BIN, inPairs, isInstalled, ROOT, withDirectory } from './harness.mjs'

const INDEX = JSON.stringify(join(ROOT, 'dist/index.js'))
const RUN = 60_000
const SCHEDULE = 40_000
const UNHEARD = 200_000

/** Of each kind: a no-op handler that is delivered at least once, and the packets of its tasks. */
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

/** Instructions of a program and all of its children, in millions. */
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

/** A daemon's whole life, with so many tasks. */
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

/** A program that stores so many tasks, one after the other. */
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

/** Tasks per million instructions; what the process itself takes is that of a few tasks. */
async function rate(measure, what, count) {
  const few = Math.round(count / 20)
  const [small, large] = [await measure(what, few), await measure(what, count)]
  return { 'tasks per million instructions': (count - few) / (large - small) }
}

/** Takes the place of what tells of events (src/embed/telling-port.ts). */
const WITHOUT_EVENTS = `
const source = 'export class TellingPort { constructor(port) { return port } }'
export const load = (url, context, next) =>
  url.endsWith('/telling-port.js') ? { format: 'module', source, shortCircuit: true } : next(url, context)`
const HOOK = `import { register } from 'node:module'
register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(WITHOUT_EVENTS)}`)})`

const BUILT = JSON.stringify(join(ROOT, 'build/src/index.js'))
/** An application runs so many tasks of its own. Prints how much CPU time a task took, in ns. */
const application = count => `import { Spoold, TaskBatch, Tasks } from ${BUILT}
const tasks = new Tasks({ maxRetries: 1 })
const noop = tasks.task('noop', _n => {})
const spoold = new Spoold({ spooler: 'memory:', tasks })
const batch = new TaskBatch()
for (let n = 0; n < ${count}; n++) batch.schedule(noop, n)
await spoold.scheduleBatch(batch)
const { user, system } = process.cpuUsage()
await spoold.start({ stopWhenEmpty: true })
await spoold.whenStopped
const used = process.cpuUsage({ user, system })
console.log((1000 * (used.user + used.system)) / ${count})`

/** @param hooks what Node loads before */
function perTask(hooks, count) {
  const words = [...hooks, '--input-type=module', '--eval', application(count)]
  const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`exit ${status}: ${stderr}`)
  return { 'ns of CPU time per task': Number(stdout) }
}

async function unheard(pairs, count, say) {
  const hooks = ['--import', `data:text/javascript,${encodeURIComponent(HOOK)}`]
  const [figure] = await inPairs(
    pairs,
    () => perTask([], count),
    () => perTask(hooks, count),
    (mine, theirs) => {
      const [[a], [b]] = [Object.values(mine), Object.values(theirs)]
      say(`events, unheard: ${a.toFixed(0)} ns, without them ${b.toFixed(0)}: ${(a - b).toFixed(0)} ns per task`)
    },
  )
  return { case: 'events, unheard', ...figure, target: 'at most 1000 ns more' }
}

export const title = 'Named tasks'
export const about = `tmpfs, one process, no-op tasks with one argument beside dictionaries of three keys, both delivered at least once; tasks
per million instructions (perf stat, user and kernel, of all processes), without those of a start. "spoold" is the named
task, "Peer" the dictionary: to run one, and to store one (\`schedule\` beside \`spool\`, without syncs). "events, unheard": an
application runs tasks of its own in memory, while nobody listens to its events; "Peer" is the same without the code that tells
of events.`

export async function run({ pairs, scale, say }) {
  const rows = []
  if (isCounting()) rows.push(...(await besideDictionaries(pairs, scale, say)))
  rows.push(await unheard(pairs, Math.round(UNHEARD * scale), say))
  return { rows }
}

/** On a virtual machine there may be no counters. */
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
