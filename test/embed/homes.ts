import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after } from 'node:test'
import { promisify } from 'node:util'
import {
  Spoold,
  type SpooldOptions,
  type StartOptions,
  type TaskErrorEvent,
  type TaskEvent,
} from '#src/index.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { ROOT, spoolDirectory } from '../helpers/workspace.js'

/** An application whose tasks run in one of the ways there are. */
export interface Home {
  readonly app: Spoold
  readonly isMemory: boolean
  /** How many tasks are stored and alive, and how many are dead; in memory nobody can tell. */
  left(): Promise<number>
  dead(): Promise<number>
  /** What tasks said, in order. */
  said(): string[]
  /** The events of tasks, in order, from whoever gets them: the application, or the worker of a daemon. */
  events(): string[]
  /** @param options as of `Spoold.start`; a daemon takes those that it knows */
  start(options?: Pick<StartOptions, 'workers' | 'concurrency' | 'deadline'>): Promise<void>
  stop(): Promise<void>
  /** Runs what is due in a process that a task kills, and returns when that is dead. Absent where nothing survives it. */
  runAndDie?(): Promise<void>
}

/** The beginning of each module of tasks. */
const PRELUDE = (journal: string) => `
import { appendFileSync, readFileSync } from 'node:fs'
import { AbortTask, currentTask, RetryTask, TaskBatch, Tasks } from 'spoold'
const JOURNAL = ${JSON.stringify(journal)}
const say = line => appendFileSync(JOURNAL, line + '\\n')
const said = () => readFileSync(JOURNAL, 'utf8').split('\\n').filter(Boolean)
const until = async isSo => { while (!isSo()) await new Promise(resolve => setTimeout(resolve, 5)) }
`
const TASK_EVENTS = ['task-started', 'task-retried', 'task-failed', 'task-finished'] as const

/** What a listener notes of an event. */
function note(name: string, event: TaskEvent & Partial<TaskErrorEvent>): string {
  const { task, error, namespace } = event
  assert.ok([event, task, task.args, task.kwargs].every(Object.isFrozen))
  const parts = [name, task.name, ...task.args, task.status, task.retries, error?.message, namespace]
  return parts.filter(part => part !== undefined).join(' ')
}

const opened: Array<() => Promise<void>> = []

after(closeHomes)

export async function closeHomes(): Promise<void> {
  for (const close of opened.splice(0)) await close()
}

interface Files {
  readonly directory: string
  readonly module: string
  said(): string[]
}

function filesFor(directory: string, text: string): Files {
  const journal = join(directory, 'said')
  appendFileSync(journal, '')
  const module = join(directory, 'tasks.mjs')
  writeFileSync(module, PRELUDE(journal) + text)
  return { directory, module, said: () => readFileSync(journal, 'utf8').split('\n').filter(Boolean) }
}

type Counts = Pick<Home, 'left' | 'dead'>

const inDirectory = (spool: string): Counts => ({
  left: async () => leftIn(spool).length,
  dead: async () => leftIn(join(spool, '.spoold/dead')).filter(name => !name.endsWith('.json')).length,
})

const NOTHING: Counts = { left: async () => 0, dead: async () => 0 }

/** An application that runs its tasks itself. */
export function embedded(
  text: string,
  mode: NonNullable<StartOptions['mode']>,
  options: Partial<SpooldOptions> & Partial<Counts> = {},
): Home {
  const directoryOf = spoolDirectory()
  const { left, dead, spooler = directoryOf } = { ...inDirectory(directoryOf), ...options }
  const { directory, module, said } = filesFor(dirname(directoryOf), text)
  const isMemory = spooler === 'memory:'
  const app = new Spoold({ sync: false, tasks: module, spooler })
  opened.push(() => app.stop())
  const events: string[] = []
  for (const name of TASK_EVENTS) app.on(name, event => events.push(note(name, event)))
  const runAndDie = () => runDying(directory, module, String(spooler), mode)
  return {
    ...{ app, isMemory, left, dead, said },
    events: () => events,
    start: start => app.start({ mode, ...start }),
    stop: () => app.stop(),
    ...(isMemory ? {} : { runAndDie }),
  }
}

/** Runs the application in a process of its own, because in-process a task that dies takes its application with it. */
async function runDying(directory: string, module: string, spool: string, mode: string): Promise<void> {
  const program = join(directory, 'program.mjs')
  writeFileSync(
    program,
    `import { Spoold } from ${JSON.stringify(join(ROOT, 'dist/index.js'))}
    const app = new Spoold({ spooler: ${JSON.stringify(spool)}, tasks: ${JSON.stringify(module)} })
    await app.start({ mode: ${JSON.stringify(mode)}, stopWhenEmpty: true, block: true })`,
  )
  await promisify(execFile)(process.execPath, [program]).catch((error: { signal?: string }) => {
    if (error.signal !== 'SIGKILL') throw error
  })
}

/** An application whose tasks a daemon runs. */
function ofDaemon(text: string): Home {
  const spool = spoolDirectory()
  const { module, said, directory } = filesFor(dirname(spool), text)
  const journal = join(directory, 'events')
  appendFileSync(journal, '')
  appendFileSync(
    module,
    `\nimport { events } from 'spoold'
    for (const name of ${JSON.stringify(TASK_EVENTS)})
      events.on(name, ({ task, error, namespace }) => {
        const parts = [name, task.name, ...task.args, task.status, task.retries, error?.message, namespace]
        appendFileSync(${JSON.stringify(journal)}, parts.filter(part => part !== undefined).join(' ') + '\\n')
      })`,
  )
  const events = () => readFileSync(journal, 'utf8').split('\n').filter(Boolean)
  const app = new Spoold({ spooler: spool, sync: false, tasks: module })
  let stop = async () => {}
  opened.push(() => stop())
  const start: Home['start'] = async ({ workers = 1, concurrency = 1, deadline } = {}) => {
    const daemon = await startDaemon({
      ...{ spool, isForeign: true },
      ini: {
        ...{ 'spooler-import': module, 'spooler-processes': workers, 'spooler-concurrency': concurrency },
        ...(deadline === undefined ? {} : { 'spooler-harakiri': deadline }),
      },
    })
    stop = async () => {
      daemon.child.kill('SIGTERM')
      await daemon.code()
    }
  }
  const runAndDie = async () => {
    await start()
    while (leftIn(spool).length > 0) await new Promise(resolve => setTimeout(resolve, 20))
    await stop()
  }
  return { app, isMemory: false, ...inDirectory(spool), said, events, start, stop: () => stop(), runAndDie }
}

/** Where tasks can run. The suites run over each of these. */
export const HOMES: Readonly<Record<string, (text: string) => Home>> = {
  'in-process': text => embedded(text, 'in-process'),
  'in memory': text => embedded(text, 'in-process', { spooler: 'memory:', ...NOTHING }),
  threads: text => embedded(text, 'threads'),
  processes: text => embedded(text, 'processes'),
  'a daemon': ofDaemon,
}
