import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { allPages } from '../helpers/markdown.js'
import { TestProcess } from '../helpers/process.js'
import { ROOT, workspace } from '../helpers/workspace.js'

const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')
const COMPILER_OPTIONS = {
  strict: true,
  noEmit: true,
  module: 'nodenext',
  target: 'es2023',
  skipLibCheck: true,
  types: ['node'],
  typeRoots: [join(ROOT, 'node_modules/@types')],
  paths: { spoold: [join(ROOT, 'dist/types/index.d.ts')] },
}

/** Asserts that modules with these texts compile. @param endings of their files; `.ts` by default */
async function compiles(texts: readonly string[], endings: readonly string[] = []): Promise<void> {
  const directory = workspace()
  const files = texts.map((_, i) => `block-${i}${endings[i] ?? '.ts'}`)
  for (const [i, text] of texts.entries()) writeFileSync(join(directory, files[i] ?? ''), text)
  mkdirSync(join(directory, 'node_modules'))
  for (const name of ['valibot', 'zod'])
    symlinkSync(join(ROOT, 'node_modules', name), join(directory, 'node_modules', name))
  writeFileSync(join(directory, 'package.json'), '{"type":"module"}')
  writeFileSync(
    join(directory, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: COMPILER_OPTIONS, files }),
  )
  const tsc = new TestProcess(process.execPath, [TSC, '-p', '.'], { cwd: directory })
  assert.equal(await tsc.code(120_000), 0, tsc.output)
}

describe('the types of the package', () => {
  it('accept every way in which a handler answers', async () => {
    await compiles([
      `import { type Handler, RetryTask, SPOOL_IGNORE, SPOOL_OK, SPOOL_RETRY } from 'spoold'
export const constant: Handler = async () => SPOOL_OK
export const besideThrow: Handler = async env => {
  if (env.to === undefined) throw new RetryTask()
  return SPOOL_OK
}
export const several: Handler = env => (env.to === undefined ? SPOOL_IGNORE : SPOOL_RETRY)
export const objects: Handler = async env => (env.to === undefined ? { bury: 'no address' } : { retry: '5m' })
export const ofTask: Handler = (_env, task) => task.SPOOL_OK
async function elsewhere() {
  return SPOOL_OK
}
export const named: Handler = elsewhere
// @ts-expect-error a forgotten return
export const forgotten: Handler = async () => {}
`,
    ])
  })
})

/** Calls of named tasks that have to compile, and that must not, as an ES module and as CommonJS. */
const NAMED_TASKS = `
import { type NamedTask, type ScheduledTask, Spoold, TaskBatch, Tasks, TaskStatus } from 'spoold'
const tasks = new Tasks({ queue: 'mail', maxRetries: Number.POSITIVE_INFINITY })
const send = tasks.task('send', { backoff: 'exponential' }, async (to: string, size: number = 3) => [to, size] as const)
const add = tasks.add((a: number, b: number) => a + b, { name: 'add', maxRetries: 2 })
const typed: NamedTask<[to: string, size?: number], Promise<readonly [string, number]>> = send
const sum: number = add(1, 2)
const coerced = tasks.task('coerced', { schema: z.tuple([z.coerce.number()]) }, n => n.toFixed(2))
const checked = tasks.task('checked', { schema: v.tuple([v.string()]) }, text => text.length)
export async function right(): Promise<ScheduledTask[]> {
  const app = new Spoold({ spooler: 'x', queues: { mail: 'y' }, tasks: [tasks] })
  const one = await send.schedule('joe')
  const status: TaskStatus = one.status === TaskStatus.WAITING ? TaskStatus.QUEUED : one.status
  await send.scheduleAt(new Date(), 'joe', 4)
  await tasks.schedule('anything', 1, { a: 2 })
  await app.schedule(send, 'joe', 4)
  await tasks.schedule((a: string) => a, 'x')
  await app.scheduleAt(add, '+1h', 1, 2)
  await send.with({ priority: 3, id: 'x' }).schedule('joe')
  await coerced.schedule('7')
  await checked.schedule('7')
  return app.scheduleBatch(new TaskBatch().schedule(send, 'joe').scheduleAt(add, '+1h', 1, 2).schedule('x', status))
}
export async function wrong(): Promise<void> {
  // @ts-expect-error not a string
  await send.schedule(1)
  // @ts-expect-error nothing to send to
  await send.schedule()
  // @ts-expect-error too many
  await add.schedule(1, 2, 3)
  // @ts-expect-error no time
  await add.scheduleAt(1, 2)
  // @ts-expect-error one is missing
  await tasks.schedule(add, 1)
  // @ts-expect-error not a number
  await tasks.schedule(add, 1, 'x')
  // @ts-expect-error not a number
  new TaskBatch().schedule(add, 1, 'x')
  // @ts-expect-error not a string
  await checked.schedule(7)
  // @ts-expect-error a task of two numbers
  const other: NamedTask<[string], void> = add
  // @ts-expect-error no option of a task
  tasks.task('a', { maxConcurrent: 4 }, () => {})
  // @ts-expect-error no backoff
  tasks.task('b', { backoff: 'linear' }, () => {})
  // @ts-expect-error a registry has no schema
  new Tasks({ schema: z.string() })
  const scheduled = await add.schedule(1, 2)
  // @ts-expect-error frozen
  scheduled.retries = 3
  console.log(typed, sum, other)
}
`

describe('the types of named tasks', () => {
  it('accept right arguments and refuse wrong ones, for ES modules and CommonJS', async () => {
    await compiles(
      [
        `import * as v from 'valibot'\nimport * as z from 'zod'\n${NAMED_TASKS}`,
        `import v = require('valibot')\nimport z = require('zod')\n${NAMED_TASKS}`,
      ],
      ['.mts', '.cts'],
    )
  })
})

describe('the TypeScript in the docs', () => {
  for (const page of allPages()) {
    const blocks = page.blocks.filter(({ language }) => language === 'ts')
    if (blocks.length === 0) continue
    it(`${page.name} compiles with the types of the package`, async () => {
      await compiles(blocks.map(({ text }) => text))
    })
  }
})
