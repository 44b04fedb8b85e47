import assert from 'node:assert/strict'
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname, join, relative } from 'node:path'
import { describe, it } from 'node:test'
import { readJournal, startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { smallDisk } from '../helpers/small-disk.js'
import { until } from '../helpers/until.js'
import { startUwsgi, UWSGIS } from '../helpers/uwsgi.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'
import {
  goldenRows,
  hasNul,
  type Row,
  receivedLine,
  refusedRows,
  type StoredRow,
  storedRows,
} from './enqueue-table.js'
import { driverSource, prepare, WRITERS, type Writer, type Written, write } from './enqueue-writers.js'

const isDue = ({ at }: Row) => Number(at ?? 0) < Date.now() / 1000
const NAME = new RegExp(
  `^uwsgi_spoolfile_on_${hostname().replaceAll('.', '\\.')}_[1-9]\\d*_[1-9]\\d*_\\d+_\\d+_\\d{1,6}$`,
)

const table = [...storedRows(), ...goldenRows()]
const workshop = workspace()

/** What a writer made of the table. */
interface Work extends Written {
  readonly rows: readonly StoredRow[]
  readonly spool: string
  /** Epoch seconds. */
  readonly began: number
}

const commands = new Map<Writer, readonly string[]>()
const works = new Map<Writer, Work>()

/** Returns the command of a writer, which is compiled once, by the first test that asks. */
function commandOf(writer: Writer): readonly string[] {
  const made = commands.get(writer)
  if (made !== undefined) return made
  mkdirSync(homeOf(writer))
  const command = prepare(writer, homeOf(writer), writer.driver, readFileSync(driverSource(writer.driver)))
  commands.set(writer, command)
  return command
}

/** Returns what a writer made of the table, which it writes once, for the first test that asks. */
function workOf(writer: Writer): Work {
  const done = works.get(writer)
  if (done !== undefined) return done
  const command = commandOf(writer)
  const rows = table.filter(row => !(writer.lacksNul && hasNul(row)))
  const spool = join(homeOf(writer), 'written')
  mkdirSync(spool)
  const began = Math.floor(Date.now() / 1000)
  const work = { rows, spool, began, ...write(homeOf(writer), command, rows, spool) }
  works.set(writer, work)
  return work
}

const homeOf = (writer: Writer) => join(workshop, writer.folder)

for (const writer of WRITERS)
  describe(`spool() in ${writer.language}`, { skip: skipUnless(writer.needs) }, () => {
    const directory = homeOf(writer)

    it('stores the table byte for byte, and leaves nothing else behind', t => {
      const { rows, spool, began, code, answers: paths, stderr } = workOf(writer)
      if (rows.length < table.length)
        t.diagnostic(`without ${table.length - rows.length} rows that have a NUL`)
      assert.equal(code, 0, stderr)
      assert.equal(paths.length, rows.length)
      for (const [i, row] of rows.entries()) assertStored(row, paths[i] ?? '', spool, began)
      assert.deepEqual(leftIn(spool), paths.map(path => relative(spool, path)).sort())
      const directories = readdirSync(spool).filter(name => statSync(join(spool, name)).isDirectory())
      assert.deepEqual(
        directories.map(name => statSync(join(spool, name)).mode & 0o777),
        directories.map(() => 0o777),
      )
    })

    it('refuses each invalid row with its reason, and writes nothing', () => {
      const rows = refusedRows().filter(({ textual }) => !textual || writer.takesText)
      const spool = spoolDirectory()
      const { code, answers, stderr } = write(directory, commandOf(writer), rows, spool)
      assert.equal(code, 1, stderr)
      assert.equal(answers.length, rows.length, stderr)
      const wrong = rows.filter(
        ({ names }, i) => !(answers[i]?.startsWith('! ') && answers[i].includes(names)),
      )
      assert.deepEqual(
        wrong.map(row => `${row.name}: ${answers[rows.indexOf(row)]}`),
        [],
      )
      assert.deepEqual(readdirSync(dirname(spool), { recursive: true }), ['spool'])
    })

    it('syncs the file, renames it, then syncs the directories', { skip: skipUnless('strace') }, () => {
      const spool = spoolDirectory()
      const trace = join(directory, 'trace')
      const row = { name: '', dictionary: [], at: '1700000000', priority: '5', body: Buffer.from('x') }
      const traced = ['strace', '-f', '-o', trace, '-e', CALLS, ...commandOf(writer)]
      const { code, answers, stderr } = write(directory, traced, [row], spool)
      assert.equal(code, 0, stderr)
      const [path = ''] = answers
      const hidden = `/.${basename(path)}` // root names it below a descriptor
      assert.match(
        stepsOf(readFileSync(trace, 'utf8'), hidden),
        /^create (open )*(time )+(open )*sync rename sync sync$/,
      )
    })

    it('fails if the spool is missing, instead of creating it', () => {
      const missing = join(workspace(), 'missing')
      const rows = [{ priority: '1' }, {}].map(row => ({ name: '', dictionary: [], ...row }))
      const { code, answers, stderr } = write(directory, commandOf(writer), rows, missing)
      assert.equal(code, 1, stderr)
      for (const answer of answers) assert.ok(answer.startsWith('! ') && answer.includes(missing), answer)
      assert.equal(answers.length, rows.length, stderr)
      assert.deepEqual(readdirSync(dirname(missing)), [])
    })

    it('leaves nothing behind on a full disk', { skip: skipUnless('root', 'mount') }, () => {
      const disk = smallDisk('size=128k')
      const spool = join(disk, 'spool')
      mkdirSync(spool)
      const row = { name: '', dictionary: [], body: Buffer.alloc(1024 * 1024, 'x') }
      const { code, answers, stderr } = write(directory, commandOf(writer), [row], spool)
      assert.equal(code, 1, stderr)
      assert.match(answers.join('\n'), /^! .*(space left|disk full|could not be stored)/i)
      assert.deepEqual(readdirSync(spool), [])
    })
  })

const CALLS =
  'trace=/^(open|openat|creat|utime|utimes|utimensat|futimesat|fsync|fdatasync|rename|renameat|renameat2)$'

/** Returns what happened to a file from its creation on, and every sync. */
function stepsOf(trace: string, hidden: string): string {
  const steps = trace.split('\n').flatMap(line => {
    const [, call = '', rest = ''] = /^\d+\s+(\w+)\((.*)/.exec(line) ?? []
    if (/sync$/.test(call)) return ['sync']
    if (/time/.test(call)) return ['time']
    if (!rest.includes(hidden)) return []
    if (call.startsWith('rename')) return ['rename']
    return [rest.includes('O_CREAT|O_EXCL') ? 'create' : 'open']
  })
  return steps.join(' ')
}

function assertStored(row: StoredRow, path: string, spool: string, began: number): void {
  const { mode, mtimeMs, atimeMs } = statSync(path)
  assert.match(basename(path), NAME, row.name)
  assert.equal(relative(spool, dirname(path)) || '.', row.directory, row.name)
  assert.equal(mode & 0o777, row.mode, row.name)
  if (row.mtime === null) assert.ok(mtimeMs / 1000 >= began && mtimeMs <= Date.now() + 1000, row.name)
  else assert.deepEqual([mtimeMs / 1000, atimeMs / 1000], [row.mtime, row.mtime], row.name)
  const bytes = readFileSync(path)
  if (!bytes.equals(row.bytes)) assert.equal(bytes.toString('hex'), row.bytes.toString('hex'), row.name)
}

describe('the table of stored tasks', () => {
  for (const uwsgi of UWSGIS)
    it(`has the files that ${uwsgi.title} writes for the same dictionaries`, {
      skip: skipUnless(uwsgi.needs),
    }, async () => {
      const spool = spoolDirectory()
      const rows = storedRows()
      const asked = rows.map(({ dictionary, at, priority, body }) => ({
        pairs: dictionary.map(pair => pair.map(bytes => bytes.toString('hex'))),
        magic: { at, priority, body: body?.toString('hex') },
      }))
      const file = join(dirname(spool), 'asked.json')
      writeFileSync(file, JSON.stringify(asked))
      const peer = startUwsgi({
        uwsgi,
        spool,
        handler: `import json
for row in json.load(open(${JSON.stringify(file)})):
    asked = {bytes.fromhex(key): bytes.fromhex(value) for key, value in row['pairs']}
    for key in ('at', 'priority'):
        if key in row['magic']: asked[key.encode()] = row['magic'][key].encode()
    if 'body' in row['magic']: asked[b'body'] = bytes.fromhex(row['magic']['body'])
    journal(uwsgi.spool(asked).decode())`,
      })
      await until('uWSGI has written all rows', () => {
        if (!peer.isRunning || peer.output.includes('Traceback')) throw new Error(peer.output)
        return readJournal(dirname(spool)).length === rows.length
      })
      const paths = readJournal(dirname(spool))
      for (const [i, row] of rows.entries()) {
        const path = paths[i] ?? ''
        const { mode, mtimeMs } = statSync(path)
        assert.equal(readFileSync(path).toString('hex'), row.bytes.toString('hex'), row.name)
        assert.equal(relative(spool, dirname(path)) || '.', row.directory, row.name)
        assert.equal(mode & 0o777, row.mode, row.name)
        if (row.mtime !== null) assert.equal(mtimeMs / 1000, row.mtime, row.name)
      }
    })
})

describe('the tasks that all writers have stored', () => {
  for (const uwsgi of UWSGIS)
    it(`run under ${uwsgi.title} with the dictionaries that were asked for`, {
      skip: skipUnless(uwsgi.needs),
    }, async () => {
      const { spool, written } = copyOfEverything()
      startUwsgi({
        uwsgi,
        spool,
        handler: `import hashlib
def spooler(env):
    del env['spooler_task_name']
    body = env.pop('body', b'')
    pairs = sorted(key.hex() + '=' + value.hex() for key, value in (
        (key.encode() if isinstance(key, str) else key, value) for key, value in env.items()))
    journal(' '.join(pairs) + ' ' + hashlib.sha256(body).hexdigest())
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler`,
        args: ['--spooler-ordered', '--spooler-quiet'],
      })
      await assertAllRun(spool, written)
    })

  it('run under spoold with the dictionaries that were asked for', async () => {
    const { spool, written } = copyOfEverything()
    await startDaemon({
      spool,
      handler: `import { createHash } from 'node:crypto'
      export default (env, task) => {
        const pairs = task.vars.map(([key, value]) => Buffer.from(key).toString('hex') + '=' + Buffer.from(value).toString('hex'))
        JOURNAL(pairs.sort().join(' ') + ' ' + createHash('sha256').update(env.body ?? '').digest('hex'))
        return task.SPOOL_OK
      }`,
      ini: { 'spooler-ordered': true, 'spooler-quiet': true },
    })
    await assertAllRun(spool, written)
  })
})

function copyOfEverything(): { readonly spool: string; readonly written: readonly Row[] } {
  const works = WRITERS.filter(({ needs }) => skipUnless(needs) === false).map(workOf)
  assert.ok(works.length > 0, 'no writer can be run here')
  const spool = spoolDirectory()
  for (const work of works) cpSync(work.spool, spool, { recursive: true, preserveTimestamps: true })
  return { spool, written: works.flatMap(({ rows }) => rows) }
}

/** Asserts that each due task has run once, with the dictionary asked for, and that the others are still there. */
async function assertAllRun(spool: string, written: readonly Row[]): Promise<void> {
  const due = written.filter(isDue)
  const journal = () => readJournal(dirname(spool))
  await until(
    'all due tasks have run',
    () => journal().length >= due.length && leftIn(spool).length <= written.length - due.length,
    60_000,
  )
  assert.equal(leftIn(spool).length, written.length - due.length)
  const [got, expected] = [journal().sort(), due.map(receivedLine).sort()]
  assert.equal(got.length, expected.length)
  for (const [i, line] of expected.entries())
    if (got[i] !== line) assert.equal(got[i]?.slice(0, 500), line.slice(0, 500))
}
