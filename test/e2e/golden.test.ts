import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { asOptions, UWSGIS } from '../helpers/uwsgi.js'
import { FIXTURES, spoolDirectory, workspace } from '../helpers/workspace.js'

/** A task as uWSGI's own spooler function got it: each key with its Python type and its bytes. */
type Received = Record<string, [type: string, base64: string]>

/** Journals each task in the form of got.jsonl, without the types. */
const RECORDER = `export default (env, task) => {
  const got = Object.create(null)
  for (const [key, value] of task.vars) got[key.toString('latin1')] = value.toString('base64')
  got.spooler_task_name = Buffer.from(task.name).toString('base64')
  if (task.body) got.body = task.body.toString('base64')
  JOURNAL(JSON.stringify(Object.entries(got)))
  return task.SPOOL_OK
}`

const bytesOf = (received: Received) =>
  Object.fromEntries(Object.entries(received).map(([key, [, base64]]) => [key, base64]))

describe('spool files of a real uWSGI', () => {
  it('run in the order of uWSGI with the keys and bytes that uWSGI received', async () => {
    const directory = workspace()
    execFileSync('tar', ['-xf', join(FIXTURES, 'golden/spool.tar'), '-C', directory])
    const expected: Received[] = readFileSync(join(FIXTURES, 'golden/got.jsonl'), 'utf8')
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    const spool = join(directory, 'spool')
    const daemon = await startDaemon({
      spool,
      handler: RECORDER,
      ini: { 'spooler-ordered': true, 'spooler-quiet': true },
    })
    await until(
      'all tasks have run',
      () => leftIn(spool).length === 0 && daemon.journal().length === expected.length,
    )
    const got = daemon.journal().map(line => Object.fromEntries(JSON.parse(line)))
    assert.deepEqual(got, expected.map(bytesOf))
  })

  for (const uwsgi of UWSGIS)
    it(`written by ${uwsgi.title} and copied in while the daemon runs reach the handler as asked for`, {
      skip: skipUnless(uwsgi.needs),
    }, async () => {
      const spool = spoolDirectory()
      const asked = join(dirname(spool), 'asked.json')
      const daemon = await startDaemon({
        spool,
        handler: RECORDER,
        ini: { 'spooler-ordered': true, 'spooler-processes': 2 },
      })
      // The script's reader counts files that appear, so ours must not run before the script has seen them.
      const hidden = join(dirname(spool), 'written')
      mkdirSync(hidden)
      const writer = new TestProcess(
        uwsgi.command,
        [
          ...asOptions(uwsgi.python),
          '--master',
          '--die-on-term',
          '--socket',
          join(dirname(spool), 'a.sock'),
          '--spooler-external',
          hidden,
          '--workers',
          '0',
          '--import',
          join(FIXTURES, 'uwsgi/golden_write.py'),
        ],
        { env: { GOLD_SEED: '7', GOLD_N: '150', GOLD_OUT: asked, GOLD_SPOOL: hidden } },
      )
      await until(
        'uWSGI has written all files',
        () => existsSync(asked) && readFileSync(asked).length > 0 && isJson(asked),
      )
      const files: Array<{ file: string; asked: Record<string, string> }> = JSON.parse(
        readFileSync(asked, 'utf8'),
      )
      execFileSync('sh', ['-c', 'cp -a --parents * "$0"', spool], { cwd: hidden }) // in place, under their final names
      await until(
        'all tasks have run',
        () => leftIn(spool).length === 0 && daemon.journal().length === files.length,
      )
      const got = new Map(
        daemon
          .journal()
          .map(line => Object.fromEntries(JSON.parse(line)))
          .map(({ spooler_task_name: name, ...rest }) => [Buffer.from(name, 'base64').toString(), rest]),
      )
      for (const { file, asked: dictionary } of files)
        assert.deepEqual(got.get(file.split('/').at(-1) ?? ''), dictionary)
      writer.child.kill('SIGTERM')
      await writer.code()
    })

  for (const uwsgi of UWSGIS)
    it(`written by ${uwsgi.title} straight into the spool are all run once`, {
      skip: skipUnless(uwsgi.needs),
    }, async () => {
      const spool = spoolDirectory()
      const daemon = await startDaemon({
        spool,
        handler: `export default (env, task) => { JOURNAL(env.n); return task.SPOOL_OK }`,
      })
      const script = `import uwsgi
for i in range(500): uwsgi.spool({b'n': str(i).encode()})
open('done', 'w').close()`
      const producer = new TestProcess(
        uwsgi.command,
        [
          ...asOptions(uwsgi.python),
          '--master',
          '--die-on-term',
          '--socket',
          'a.sock',
          '--spooler-external',
          spool,
          '--workers',
          '0',
          '--spooler-quiet',
          '--import',
          'produce.py',
        ],
        { cwd: writeScript(dirname(spool), 'produce.py', script) },
      )
      await until(
        'all tasks have run',
        () => daemon.journal().length >= 500 && leftIn(spool).length === 0,
        40_000,
      )
      assert.deepEqual(
        daemon
          .journal()
          .map(Number)
          .sort((a, b) => a - b),
        Array.from({ length: 500 }, (_, i) => i),
      )
      producer.child.kill('SIGTERM')
      await producer.code()
    })
})

function isJson(file: string): boolean {
  try {
    JSON.parse(readFileSync(file, 'utf8'))
    return true
  } catch {
    return false
  }
}

function writeScript(directory: string, name: string, text: string): string {
  execFileSync('sh', ['-c', `cat > ${name}`], { cwd: directory, input: text })
  return directory
}
