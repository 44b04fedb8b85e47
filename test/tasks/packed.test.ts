import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { before, describe, it } from 'node:test'
import { TestProcess } from '../helpers/process.js'
import { ROOT, workspace } from '../helpers/workspace.js'

const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')

/** A caller’s program: with the right arguments it compiles, and each wrong call is an error. */
const PROGRAM = `
import { currentTask, type Middleware, RetryTask, Spoold, TaskBatch, Tasks } from 'spoold'
import { type EndedRun, fake } from 'spoold/testing'

const tasks = new Tasks({ maxRetries: 2 })
export const sendMail = tasks.task('send-mail', { required: 1 }, async (to: string, cc?: readonly string[]) => {
  if (cc?.length === 0) throw new RetryTask({ at: new Date(Date.now() + 1000) })
  currentTask()?.log(to)
})
const audit: Middleware = {
  enqueue: async (call, next) => next({ args: [...call.args] }),
  run: (task, next) => (task.retries > 1 ? undefined : next()),
}
tasks.middleware(audit)

async function main() {
  const spoold = new Spoold({ spooler: 'memory:', tasks })
  const kit = fake(spoold)
  await sendMail.schedule('joe')
  await spoold.schedule(sendMail, 'jane', ['jim'])
  await tasks.scheduleBatch(new TaskBatch().schedule(sendMail, 'jack'))
  kit.assertScheduled(sendMail, ['jane', ['jim']], { times: 1 })
  const runs: readonly EndedRun[] = await kit.drain()
  console.log(runs.map(({ task, outcome }) => task.args[0] + ' ' + outcome).join())
  kit.restore()
}
main()

export async function wrong() {
  // @ts-expect-error too few
  await sendMail.schedule()
  // @ts-expect-error too many
  await sendMail.schedule('joe', [], 3)
  // @ts-expect-error not what the function takes
  await sendMail.schedule(7)
  // @ts-expect-error the time is missing
  await sendMail.scheduleAt('joe', ['x'])
  // @ts-expect-error by the registry, too
  await tasks.schedule(sendMail, 7)
  // @ts-expect-error in a batch
  new TaskBatch().schedule(sendMail, true)
  // @ts-expect-error in an assertion
  fake(tasks).assertScheduled(sendMail, [7])
  // @ts-expect-error no such option
  tasks.task('other', { retries: 3 }, () => {})
  // @ts-expect-error a time is a Date
  throw new RetryTask({ at: 'tomorrow' })
}
`

describe('the packed package', () => {
  const base = workspace()
  const installed = join(base, 'node_modules/spoold')

  before(async () => {
    mkdirSync(installed, { recursive: true })
    // without scripts: the build would take away what other tests run
    const pack = new TestProcess('npm', ['pack', '--ignore-scripts', '--pack-destination', base], {
      cwd: ROOT,
    })
    assert.equal(await pack.code(120_000), 0, pack.output)
    const [archive = ''] = readdirSync(base).filter(name => name.endsWith('.tgz'))
    const tar = new TestProcess('tar', ['-xzf', join(base, archive), '--strip-components=1', '-C', installed])
    assert.equal(await tar.code(60_000), 0, tar.output)
    const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    for (const name of [...Object.keys(dependencies), '@types/node']) {
      mkdirSync(dirname(join(base, 'node_modules', name)), { recursive: true })
      symlinkSync(join(ROOT, 'node_modules', name), join(base, 'node_modules', name))
    }
  })

  for (const type of ['module', 'commonjs'])
    it(`has types and code for a project of type ${type}`, async () => {
      const directory = join(base, type)
      mkdirSync(directory)
      writeFileSync(join(directory, 'package.json'), JSON.stringify({ type }))
      writeFileSync(join(directory, 'main.ts'), PROGRAM)
      const compilerOptions = {
        strict: true,
        module: 'node16',
        target: 'es2023',
        outDir: 'out',
        types: ['node'],
      }
      writeFileSync(
        join(directory, 'tsconfig.json'),
        JSON.stringify({ compilerOptions: { ...compilerOptions, rootDir: '.' }, files: ['main.ts'] }),
      )
      const tsc = new TestProcess(process.execPath, [TSC], { cwd: directory })
      assert.equal(await tsc.code(120_000), 0, tsc.output)
      const made = readFileSync(join(directory, 'out/main.js'), 'utf8')
      assert.match(
        made,
        type === 'module' ? /^import .*from 'spoold\/testing'/m : /require\("spoold\/testing"\)/,
      )
      const program = new TestProcess(process.execPath, ['out/main.js'], { cwd: directory })
      assert.equal(await program.code(30_000), 0, program.output)
      assert.match(program.output, /^joe succeeded,jane succeeded,jack succeeded\n$/)
    })
})
