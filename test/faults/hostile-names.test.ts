import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { leftIn } from '../helpers/files.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { ROOT, workspace } from '../helpers/workspace.js'

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

/** Returns at least 2,000 names that somebody might hope lead out of a spool, the same in every run. */
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

/** In each place where a caller can put a name, every so many names are tried, and in a long run all of them. */
const EACH = isLong ? 1 : 3

/** Tries the names in every place where a caller can put one. */
const SCRIPT = `
  import { enqueue, spoolSync, Batch } from 'spoold'
  import { readFileSync, rmdirSync, writeFileSync } from 'node:fs'
  const { spool, names } = JSON.parse(readFileSync(process.argv[1]))
  const counts = {}
  let turn = 0
  const attempt = async (what, run) => {
    if (turn++ % ${EACH} !== 0) return
    try { await run(); counts[what + ' stored'] = (counts[what + ' stored'] ?? 0) + 1 }
    catch (error) { const key = what + ' ' + (error.code ?? error.stack); counts[key] = (counts[key] ?? 0) + 1 }
  }
  try { rmdirSync('/spoold-test-begins') } catch {}
  for (const [i, name] of names.entries()) {
    const sync = i % 2 === 0
    await attempt('priority', () => enqueue({ a: 1 }, { spooler: spool, sync, priority: name }))
    await attempt('priority', () => spoolSync({ a: 1, priority: name }, { spooler: spool, sync }))
    await attempt('spooler', () => enqueue({ a: 1, spooler: name }, { spooler: spool, sync }))
    await attempt('id', () => enqueue({ a: 1 }, { spooler: spool, sync, id: name }))
    await attempt('batch', () => new Batch({ spooler: spool }).add({ a: 1 }, { priority: name, id: name }).spool())
  }
  try { rmdirSync('/spoold-test-ends') } catch {}
  console.log(JSON.stringify(counts))`

/** Tries the names in every place of the command line, in one process. */
const COMMANDS = `
  import { main } from './build/src/doors/cli/program.js'
  import { readFileSync, rmdirSync, writeFileSync } from 'node:fs'
  const { spool, names, lines } = JSON.parse(readFileSync(process.argv[1]))
  const counts = {}
  let turn = 0
  const IO = { stdout() {}, stderr() {}, stdin: () => [], isWatched: false, env: {}, ownProcess: {}, signals: { take() {}, hear: () => () => {}, end() {} } }
  const run = async (what, ...args) => {
    if (turn++ % ${EACH} !== 0) return
    const key = what + ' ' + (await main(['enqueue', '--quiet', '--spooler', spool, ...args], IO))
    counts[key] = (counts[key] ?? 0) + 1
  }
  try { rmdirSync('/spoold-test-begins') } catch {}
  for (const name of names) {
    await run('priority', 'a=1', '--priority=' + name)
    await run('spooler', 'a=1', 'spooler=' + name)
    await run('id', 'a=1', '--id=' + name)
    writeFileSync(lines, JSON.stringify({ spooler: name, priority: name }) + '\\n')
    await run('json', '--json', lines)
  }
  try { rmdirSync('/spoold-test-ends') } catch {}
  console.log(JSON.stringify(counts))`

/** The system calls that open, make, change or remove something. */
const TOUCHES =
  'open,openat,creat,mkdir,mkdirat,mknod,mknodat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir,chmod,fchmodat,chown,fchownat,utimensat,truncate'

interface Watched {
  /** How often each place had each result. */
  readonly counts: Readonly<Record<string, number>>
  /** The calls that touched something outside of the spool. */
  readonly strays: readonly string[]
}

function watch(script: string, input: string, spool: string): Watched {
  const log = join(workspace(), 'strace')
  const { stdout, stderr } = spawnSync(
    'strace',
    ['-f', '--seccomp-bpf', '-s', '8192', '-e', `trace=${TOUCHES}`, '-o', log].concat(
      process.execPath,
      '--input-type=module',
      '-e',
      script,
      input,
    ),
    { cwd: ROOT, encoding: 'utf8', maxBuffer: 2 ** 28, timeout: 170_000 },
  )
  const lines = readFileSync(log, 'utf8').split('\n')
  const [begin, end] = ['begins', 'ends'].map(mark =>
    lines.findIndex(line => line.includes(`/spoold-test-${mark}`)),
  )
  assert.ok(begin !== undefined && end !== undefined && begin >= 0 && end > begin, stderr)
  const strays = lines.slice(begin + 1, end).filter(line => isStray(line, spool))
  return { counts: JSON.parse(stdout), strays }
}

/** True if the call touches a path that is neither the spool nor below it. */
function isStray(line: string, spool: string): boolean {
  const call = /^\d+\s+(\w+)\((.*)/.exec(line)
  if (call === null || OWN.test(line) || line.includes('O_PATH')) return false // such a descriptor opens nothing
  const [, name = '', rest = ''] = call
  // Only the last string of a symlink call is touched; the first one is the text of the link.
  const strings = [...rest.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, text = '']) => text)
  const paths = name.startsWith('symlink') ? strings.slice(-1) : strings
  return paths.some(
    path => (path !== spool && !path.startsWith(`${spool}/`)) || /(^|\/)\.\.(\/|$)/.test(path),
  )
}

/** Matches our own code, which is loaded when needed, the input of the command line, and /proc and /sys. */
const OWN = new RegExp(
  `"${ROOT}/?(dist|build|node_modules|package)|"${ROOT}/?"|/lines"|"/proc"|"/proc/(self|\\d+|sys/vm)/|"/sys/devices/system/cpu/`,
)

describe('hostile names', { skip: skipUnless('strace') }, () => {
  it('touch nothing outside of the spool, 2,000 and more of them in every place of the library', () => {
    const { spool, outside, input, names } = setUp()
    const { counts, strays } = watch(SCRIPT, input, spool)
    assert.deepEqual(strays, [])
    // A priority may only have digits, an id may be anything, and a spooler must be the known one.
    const expected = / (stored|REQUEST_INVALID|SPOOLER_UNKNOWN|ENQUEUE_FAILED|BATCH_INCOMPLETE)$/
    assert.deepEqual(
      Object.keys(counts).filter(key => !expected.test(key)),
      [],
    )
    assert.ok((counts['priority REQUEST_INVALID'] ?? 0) > (names.length * 1.5) / EACH, JSON.stringify(counts))
    assert.ok((counts['spooler SPOOLER_UNKNOWN'] ?? 0) > names.length / 2 / EACH, JSON.stringify(counts))
    assertAllIds(counts, 'id stored', names)
    assert.deepEqual(leftIn(outside), [])
  })

  it('touch nothing outside of the spool on the command line', () => {
    const { spool, outside, input, names } = setUp()
    const { counts, strays } = watch(COMMANDS, input, spool)
    assert.deepEqual(strays, [])
    assert.ok((counts['priority 64'] ?? 0) > (names.length * 0.9) / EACH, JSON.stringify(counts))
    assert.ok((counts['spooler 64'] ?? 0) > (names.length * 0.5) / EACH, JSON.stringify(counts))
    assert.ok((counts['json 64'] ?? 0) > (names.length * 0.9) / EACH, JSON.stringify(counts))
    assertAllIds(counts, 'id 0', names)
    assert.deepEqual(leftIn(outside), [])
  })
})

function assertAllIds(counts: Watched['counts'], stored: string, names: readonly string[]): void {
  assert.deepEqual(
    Object.keys(counts).filter(key => key.startsWith('id ')),
    [stored],
  )
  assert.ok((counts[stored] ?? 0) >= Math.floor(names.length / EACH), JSON.stringify(counts))
}

function setUp() {
  const directory = workspace()
  const [spool, outside, input] = ['spool', 'outside', 'input'].map(name => join(directory, name))
  assert.ok(spool !== undefined && outside !== undefined && input !== undefined)
  mkdirSync(spool)
  mkdirSync(outside)
  const names = hostileNames(outside, spool)
  assert.ok(names.length >= 2000, `${names.length}`)
  writeFileSync(input, JSON.stringify({ spool, names, lines: join(directory, 'lines') }))
  return { spool, outside, input, names }
}
