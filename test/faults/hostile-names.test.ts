import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { leftIn } from '../helpers/files.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { BIN, ROOT, workspace } from '../helpers/workspace.js'

const PARTS = [
  '..',
  '.',
  '/',
  '//',
  '\\',
  '\0',
  '~',
  'etc',
  'passwd',
  '5',
  '05',
  '-1',
  ' ',
  '\n',
  '\x1b[2J',
  '%2e%2e',
  '*',
]
const MORE = [
  '..\u2215',
  '\uff0e\uff0e',
  '\ud800',
  'ключ',
  '$HOME',
  '$(id)',
  '`id`',
  '.spoold',
  '.spoold/ids',
  'x'.repeat(300),
]

/** At least 2,000 names that somebody might hope lead out of a spool, the same in every run. */
function hostileNames(outside: string, spool: string): string[] {
  const names = new Set<string>()
  const parts = [...PARTS, ...MORE, outside, spool]
  for (const a of parts)
    for (const b of parts) for (const joint of ['', '/', '/../']) names.add(`${a}${joint}${b}`)
  for (let depth = 1; depth < 12; depth++)
    for (const end of ['', outside, 'etc/passwd', '5', `..${outside}/x`]) {
      names.add(`${'../'.repeat(depth)}${end}`)
      names.add(`5/${'../'.repeat(depth)}${end}`)
      names.add(`${spool}/${'../'.repeat(depth)}${end}`)
    }
  return [...names]
}

/** Tries every name in every place where a caller can put one. */
const SCRIPT = `
  import { enqueue, spoolSync, Batch } from 'spoold'
  import { readFileSync, rmdirSync, writeFileSync } from 'node:fs'
  const { spool, names } = JSON.parse(readFileSync(process.argv[1]))
  const counts = {}
  const attempt = async (what, run) => {
    try { await run(); counts[what + ' stored'] = (counts[what + ' stored'] ?? 0) + 1 }
    catch (error) { const key = what + ' ' + (error.code ?? error.stack); counts[key] = (counts[key] ?? 0) + 1 }
  }
  try { rmdirSync('/spoold-test-begins') } catch {}
  for (const name of names) {
    for (const sync of [true, false]) {
      await attempt('priority', () => enqueue({ a: 1 }, { spooler: spool, sync, priority: name }))
      await attempt('priority', () => spoolSync({ a: 1, priority: name }, { spooler: spool, sync }))
      await attempt('spooler', () => enqueue({ a: 1, spooler: name }, { spooler: spool, sync }))
      await attempt('id', () => enqueue({ a: 1 }, { spooler: spool, sync, id: name }))
    }
    await attempt('batch', () => new Batch({ spooler: spool }).add({ a: 1 }, { priority: name, id: name }).spool())
  }
  try { rmdirSync('/spoold-test-ends') } catch {}
  console.log(JSON.stringify(counts))`

/** The system calls that open, make, change or remove something. */
const TOUCHES =
  'open,openat,creat,mkdir,mkdirat,mknod,mknodat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir,chmod,fchmodat,chown,fchownat,utimensat,truncate'

interface Watched {
  readonly stdout: string
  readonly stderr: string
  /** The calls that touched something outside, between the marks when there are some. */
  readonly strays: string[]
}

function watch(args: readonly string[], spool: string, isMarked: boolean): Watched {
  const log = join(workspace(), 'strace')
  const { stdout, stderr } = spawnSync(
    'strace',
    ['-f', '-y', '-s', '8192', '-e', `trace=${TOUCHES}`, '-o', log, process.execPath, ...args],
    { cwd: ROOT, encoding: 'utf8', maxBuffer: 2 ** 28, timeout: 170_000 },
  )
  const lines = readFileSync(log, 'utf8').split('\n')
  const begin = isMarked ? lines.findIndex(line => line.includes('/spoold-test-begins')) : 0
  const end = isMarked ? lines.findIndex(line => line.includes('/spoold-test-ends')) : lines.length
  assert.ok(begin >= 0 && end > begin, stderr)
  const strays = lines.slice(begin + 1, end).filter(line => isStray(line, spool, isMarked))
  return { stdout, stderr, strays }
}

/** Any path, or for a whole program any path that is opened for writing, that is not the spool or below it. */
function isStray(line: string, spool: string, isStrict: boolean): boolean {
  const call = /^\d+\s+(\w+)\((.*)/.exec(line)
  if (call === null) return false
  const [, name = '', rest = ''] = call
  if (name.startsWith('open') && !isStrict && !/O_WRONLY|O_RDWR|O_CREAT/.test(rest)) return false
  if (/^(utimensat)\(\d+<[^>]*>, NULL/.test(`${name}(${rest}`)) return !rest.includes(`<${spool}/`)
  // a link's text is no path that is touched: the last string is
  const strings = [...rest.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, text = '']) => text)
  const paths = name.startsWith('symlink') ? strings.slice(-1) : strings
  return paths.some(
    path => (path !== spool && !path.startsWith(`${spool}/`)) || /(^|\/)\.\.(\/|$)/.test(path),
  )
}

describe('hostile names', { skip: skipUnless('strace') }, () => {
  it('at least 2,000 of them, in every place of the library: nothing outside the spool is touched', () => {
    const directory = workspace()
    const [spool, outside] = [join(directory, 'spool'), join(directory, 'outside')]
    mkdirSync(spool)
    mkdirSync(outside)
    const names = hostileNames(outside, spool)
    assert.ok(names.length >= 2000, `${names.length}`)
    const input = join(directory, 'input')
    writeFileSync(input, JSON.stringify({ spool, names }))
    const { stdout, strays } = watch(['--input-type=module', '-e', SCRIPT, input], spool, true)
    assert.deepEqual(strays, [])
    const counts: Record<string, number> = JSON.parse(stdout)
    // digits are the only names that a priority may have; ids may be anything; a spooler must be the one
    assert.deepEqual(
      Object.keys(counts).filter(
        key => !/ (stored|REQUEST_INVALID|SPOOLER_UNKNOWN|ENQUEUE_FAILED|BATCH_INCOMPLETE)$/.test(key),
      ),
      [],
    )
    assert.ok((counts['priority REQUEST_INVALID'] ?? 0) > names.length * 3, JSON.stringify(counts))
    assert.ok((counts['spooler SPOOLER_UNKNOWN'] ?? 0) > names.length, JSON.stringify(counts))
    assert.equal(counts['id stored'], names.length * 2, JSON.stringify(counts))
    assert.deepEqual(leftIn(outside), [])
  })

  it('on the command line: nothing outside the spool is touched', () => {
    const directory = workspace()
    const [spool, outside] = [join(directory, 'spool'), join(directory, 'outside')]
    mkdirSync(spool)
    mkdirSync(outside)
    const names = hostileNames(outside, spool).filter(name => !name.includes('\0'))
    // one process for all of them as JSON lines; and single runs, each with a name in every place
    const lines = names.flatMap(name => [
      JSON.stringify({ a: 1, spooler: name }),
      JSON.stringify({ a: 1, priority: name }),
    ])
    const few = names.filter((_, i) => i % Math.ceil(lines.length / (isLong ? 2000 : 12)) === 0)
    for (const name of few)
      for (const args of [[`spooler=${name}`], [`--priority=${name}`, 'a=1'], [`--id=${name}`, 'a=1']]) {
        const { strays, stderr } = watch([BIN, 'enqueue', '--spooler', spool, ...args], spool, false)
        assert.deepEqual(strays, [], JSON.stringify([args, stderr]))
      }
    const input = join(directory, 'lines')
    for (const line of lines.filter((_, i) => i % (isLong ? 1 : 60) === 0)) {
      writeFileSync(input, `${line}\n`)
      const { strays } = watch([BIN, 'enqueue', '--spooler', spool, '--json', input], spool, false)
      assert.deepEqual(strays, [], line)
    }
    assert.deepEqual(leftIn(outside), [])
  })
})
