import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { quietly } from '#src/base/errors.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn } from '../helpers/files.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { patience, until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** A block of code that takes one second of the time in which its process runs. */
const SECOND = `{
  const cell = new Int32Array(new SharedArrayBuffer(4))
  for (let i = 0; i < 20; i++) Atomics.wait(cell, 0, 0, 50)
}`
const SLOW = `export default (env, task) => { JOURNAL('begun'); ${SECOND}; return task.SPOOL_OK }`
/** Takes a third of the time of SLOW. */
const BRIEF = SLOW.replace('i < 20', 'i < 6')
const WARNED = `import { setTimeout as sleep } from 'node:timers/promises'
export default async (env, { signal, SPOOL_OK }) => {
  JOURNAL('begun')
  for (let i = 0; i < 20; i++) await sleep(50, undefined, { signal })
  return SPOOL_OK
}`
const SLOW_START = `JOURNAL('begun'); ${SECOND}; export default (env, task) => task.SPOOL_OK`

describe('a daemon that is frozen with its processes for longer than a deadline', { concurrency: 3 }, () => {
  async function freeze({ pid }: Daemon, seconds: number) {
    process.kill(-pid, 'SIGSTOP')
    const since = performance.now()
    await until('the deadline is over', () => performance.now() > since + 1000 * seconds)
    process.kill(-pid, 'SIGCONT')
  }

  async function frozen(handler: string, option: string, isStopping = false, seconds = 3 * patience()) {
    const spool = spoolDirectory()
    drop(spool)
    const setup = { spool, handler, ini: { [option]: seconds }, isGroup: true, isUnready: true } as const
    const daemon = await startDaemon(setup)
    await until('the handler has begun', () => daemon.journal().length > 0)
    if (isStopping) {
      daemon.child.kill('SIGTERM')
      await daemon.waitFor('killing the spooler')
    }
    await freeze(daemon, Math.max(3, seconds))
    await until('the task has ended', () => leftIn(spool).length === 0)
    if (!isStopping) daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.doesNotMatch(daemon.output, /HARAKIRI|NO MERCY|still loading|killed by/)
    assert.equal(daemon.journal().length, 1)
  }

  it('lets a task run for the rest of spooler-harakiri', () => frozen(SLOW, 'spooler-harakiri'))

  it('lets a task run for the rest of a short spooler-harakiri', () =>
    frozen(BRIEF, 'spooler-harakiri', false, 1))

  it('does not abort the signal of a task', () => frozen(WARNED, 'spooler-harakiri'))

  it('lets a process start for the rest of spooler-start-timeout', () =>
    frozen(SLOW_START, 'spooler-start-timeout'))

  it('lets a task end within the rest of its mercy', () => frozen(SLOW, 'worker-reload-mercy', true))

  it('lets an interpreter that replaces a dead one start for the rest of spooler-start-timeout', {
    skip: skipUnless('python3'),
  }, async () => {
    const spool = spoolDirectory()
    const file = join(dirname(spool), 'tasks.py')
    const mark = join(dirname(spool), 'starts')
    writeFileSync(
      file,
      `import os, time, uwsgi
mark = ${JSON.stringify(mark)}
def write(text):
    with open(mark, 'w') as file: file.write(text)
if os.path.exists(mark):
    write('again')
    for _ in range(20): time.sleep(0.05)
def spooler(env):
    if os.path.exists(mark): return -2
    write('once')
    os._exit(1)
uwsgi.spooler = spooler
`,
    )
    const seconds = 3 * patience()
    const ini = { python: PYTHON, 'spooler-python-import': file, 'spooler-start-timeout': seconds }
    drop(spool)
    const daemon = await startDaemon({ spool, isForeign: true, ini, isGroup: true, isUnready: true })
    await until(
      'the next interpreter starts',
      () => quietly(() => readFileSync(mark, 'utf8'), '') === 'again',
    )
    await freeze(daemon, seconds)
    await until('the task has ended', () => leftIn(spool).length === 0)
    assert.doesNotMatch(daemon.output, /still loading|cannot continue/)
  })
})
