import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { Spoold, Tasks } from '#src/index.js'
import { spoold } from '../helpers/cli.js'
import { readJournal, startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const RUNS = 40

/** Returns a module of tasks, which writes `VERSION TASK ARGUMENT` for each run. */
const moduleOf = (version: string, spool: string, tasks: string) => `
import { appendFileSync } from 'node:fs'
import { Tasks } from 'spoold'
const ran = (name, n) => appendFileSync(${JSON.stringify(join(dirname(spool), 'journal'))}, '${version} ' + name + ' ' + n + '\\n')
export const tasks = new Tasks({ maxRetries: 3 })
const task = name => tasks.task(name, n => ran(name, n))
${tasks}`

/** Starts a daemon on a module of that version. */
async function startVersion(version: string, spool: string, tasks: string, ini = {}) {
  const file = join(dirname(spool), `${version}.mjs`)
  writeFileSync(file, moduleOf(version, spool, tasks))
  const daemon = await startDaemon({ spool, isForeign: true, ini: { 'spooler-import': file, ...ini } })
  const reload = (text: string) => {
    writeFileSync(file, moduleOf(version, spool, text))
    daemon.child.kill('SIGHUP')
  }
  return { daemon, reload }
}

async function scheduleInto(spool: string, names: readonly string[], runs = RUNS): Promise<void> {
  const tasks = new Tasks()
  for (const name of names) tasks.task(name, (_n: number) => {})
  const application = new Spoold({ spooler: spool, sync: false, tasks })
  for (let i = 0; i < runs; i++) for (const name of names) await application.schedule(name, i)
}

const journalOf = (spool: string) => readJournal(dirname(spool))

describe('a deploy', () => {
  it('with two versions of a registry at once runs each task once, where its name is known', async () => {
    const spool = spoolDirectory()
    await startVersion('old', spool, `task('both'); task('removed')`)
    await startVersion('new', spool, `task('both'); task('added')`)
    await scheduleInto(spool, ['both', 'removed', 'added'])
    await until('all tasks have run', () => leftIn(spool).length === 0)
    const runs = journalOf(spool)
    assert.equal(runs.length, 3 * RUNS)
    assert.equal(new Set(runs.map(line => line.replace(/^\w+ /, ''))).size, 3 * RUNS, 'none ran twice')
    const wrong = runs.filter(line => /^(old added|new removed) /.test(line))
    assert.deepEqual(wrong, [])
  })

  it('that removes a task keeps its packets waiting without using up retries, and a later deploy runs them', async () => {
    const spool = spoolDirectory()
    const { daemon, reload } = await startVersion('one', spool, `task('kept')`, { 'spooler-frequency': 1000 })
    await scheduleInto(spool, ['renamed', 'kept'], 5)
    await until('the known tasks have run', () => leftIn(spool).length === 5)
    await daemon.waitFor(/no handler knows the task renamed; it waits until one does/)
    const { stdout } = await spoold(['ls', '--json', '--task', 'renamed', spool])
    const rows = stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    assert.deepEqual(
      rows.map(({ task }) => [task.name, task.retries]),
      new Array(5).fill(['renamed', 0]),
    )
    reload(`task('kept'); task('new-name'); task('renamed') // until nothing of the old name is left`)
    await until('the renamed tasks have run', () => leftIn(spool).length === 0)
    assert.deepEqual(
      journalOf(spool)
        .filter(line => line.includes('renamed'))
        .sort(),
      [0, 1, 2, 3, 4].map(n => `one renamed ${n}`),
    )
  })

  it('whose schema refuses waiting tasks buries them, and they run once requeued under a right schema', async () => {
    const spool = spoolDirectory()
    const strict = (type: string) => `tasks.task('strict', {
      schema: { '~standard': { version: 1, vendor: 'test', validate: value =>
        typeof value[0] === '${type}' ? { value } : { issues: [{ message: 'expected a ${type}', path: [0] }] } } },
    }, n => ran('strict', n))`
    const { daemon } = await startVersion('wrong', spool, strict('string'))
    await scheduleInto(spool, ['strict'], 3)
    await daemon.waitFor(/\(strict\) is buried: task strict: args\[0\]: expected a string/)
    await until('all tasks are buried', () => leftIn(spool).length === 0)
    assert.deepEqual(journalOf(spool), [])
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    await startVersion('right', spool, strict('number'))
    assert.equal((await spoold(['requeue', '--task', 'strict', spool])).code, 0)
    await until('the requeued tasks have run', () => journalOf(spool).length === 3)
    assert.deepEqual(leftIn(spool), [])
  })
})
