import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { parseVars, toPairs } from '#src/formats/protocol/vars.js'
import { readJournal, startDaemon, writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { UWSGIS } from '../helpers/uwsgi.js'
import { FIXTURES, spoolDirectory } from '../helpers/workspace.js'
import { writeHandler } from './host-daemon.js'

/** A program of fixtures/hosts/python, its tasks, and what is seen when its run is over. */
interface Program {
  readonly tasks: readonly Buffer[]
  /** How many different lines it journals. */
  readonly lines: number
  /** How many files stay. */
  readonly left?: number
  /** True if its lines come in the order of a directory that changes meanwhile. */
  readonly hasOwnOrder?: true
}

const EVERY_BYTE = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
const begin = [packet({ ud_spool_func: 'begin', ud_spool_ret: '-2' })]
const asked = (...answers: string[]) => answers.map(a => packet({ a }))

const PROGRAMS: Readonly<Record<string, Program>> = {
  spool_dict: { tasks: begin, lines: 10, hasOwnOrder: true },
  pass_arguments: { tasks: begin, lines: 4, hasOwnOrder: true },
  spoolraw: { tasks: begin, lines: 6, hasOwnOrder: true },
  spoolforever: { tasks: begin, lines: 3, left: 1, hasOwnOrder: true },
  exceptions: { tasks: asked('deep', 'unicode', 'zero', 'assert', 'syntax', 'ok'), lines: 6, left: 5 },
  excepthook: { tasks: asked('bad', 'ok'), lines: 4, left: 1, hasOwnOrder: true },
  answers: {
    tasks: asked(
      'ok',
      'retry',
      'five',
      'three',
      'true',
      'none',
      'text',
      'float',
      'list',
      'zero',
      'false',
      'enum-ok',
      'enum-retry',
    ),
    lines: 13,
    left: 11,
  },
  binary: {
    tasks: [
      packet({}),
      packet(
        { every: EVERY_BYTE, empty: '', é: 'ß', spooler_task_name: 'mine' },
        Buffer.concat([EVERY_BYTE, EVERY_BYTE]),
      ),
      packet({ large: Buffer.alloc(60_000, 7) }, Buffer.alloc(3_000_000, 'x')),
    ],
    lines: 10,
  },
  recursive: { tasks: [packet({ n: '1' })], lines: 6 },
  wrong_calls: { tasks: [packet({ go: '1' })], lines: 5, hasOwnOrder: true },
  undecodable: {
    tasks: [
      packet({ ud_spool_func: 'task', ud_spool_ret: '-2', a: EVERY_BYTE }),
      packet({ ud_spool_func: 'task', ud_spool_ret: '-2', a: 'x' }, Buffer.from([0xff])),
      packet({ ud_spool_func: 'nobody', ud_spool_ret: '-2' }),
      packet({ a: 'no function' }),
      packet({ ud_spool_func: 'task', ud_spool_ret: '-2', a: 'fine' }),
    ],
    lines: 1,
    left: 4,
  },
  module: { tasks: [packet({ a: '1' })], lines: 16 },
  around: { tasks: begin, lines: 4 },
}

interface Seen {
  readonly calls: readonly string[]
  readonly left: readonly string[]
  readonly log: readonly string[]
}

for (const uwsgi of UWSGIS)
  describe(`spooler programs in Python do under spoold what they do under ${uwsgi.title}`, {
    skip: skipUnless(uwsgi.needs, 'python3'),
  }, () => {
    for (const [name, program] of Object.entries(PROGRAMS))
      it(name, async () => {
        const theirs = await watch(name, program, (ini, directory) => {
          const file = join(directory, 'uwsgi.ini')
          writeIni(file, {
            ...uwsgi.python,
            master: true,
            'die-on-term': true,
            'worker-reload-mercy': 2,
            ...ini,
          })
          return new TestProcess(uwsgi.command, [file], { cwd: directory })
        })
        const ours = await watch(name, program, (ini, _directory, spool) =>
          startDaemon({ spool, isForeign: true, ini: { ...ini, ...uwsgi.samePython }, isUnready: true }),
        )
        // spoold indents the further lines of a traceback
        assert.deepEqual({ ...ours, log: ours.log.map(line => line.replace(/^ {2}/, '')).sort() }, theirs)
      })
  })

type Ini = Readonly<Record<string, string | number | boolean>>

async function watch(
  name: string,
  program: Program,
  start: (ini: Ini, directory: string, spool: string) => TestProcess | Promise<TestProcess>,
): Promise<Seen> {
  const spool = spoolDirectory()
  const source = readFileSync(join(FIXTURES, 'hosts/python', `${name}.py`), 'utf8')
  const handler = writeHandler(spool, 'python', source, name)
  for (const [i, bytes] of program.tasks.entries()) drop(spool, `uwsgi_spoolfile_on_t_${i}`, bytes)
  const ini = { spooler: spool, import: handler, 'spooler-frequency': 1, 'spooler-ordered': true, mine: 1 }
  const process = await start(ini, dirname(spool), spool)
  const calls = () => [...new Set(readJournal(dirname(spool)))]
  await until(`${name} is over; so far ${calls().join(', ')}`, () => {
    return calls().length >= program.lines && leftIn(spool).length === (program.left ?? 0)
  }).catch(error => {
    throw new Error(`${error}\n${calls().join('\n')}\n${process.output}`)
  })
  const left = leftIn(spool).map(file => describePacket(readFileSync(join(spool, file))))
  await until('the log is complete', () => isTold(process.output, program))
  process.child.kill('SIGINT')
  // uWSGI's Python takes a SIGINT during a task for an exception of the task, and goes on
  const again = setInterval(() => process.child.kill('SIGINT'), 10_000)
  await process.exited
  clearInterval(again)
  const lines = calls()
  return { calls: program.hasOwnOrder ? lines.sort() : lines, left, log: logOf(process.output, spool) }
}

/** True if the log has said why each task stays. */
function isTold(output: string, { left = 0 }: Program): boolean {
  return left === 0 || (output.match(/managing request/g)?.length ?? 0) >= left
}

/** Returns the lines of tracebacks, each once: the signal that ends uWSGI may interrupt its Python anywhere. */
function logOf(output: string, spool: string): string[] {
  const lines = output
    .replaceAll(dirname(spool), '')
    .replace(/^( *)\S+\.Own:/gm, '$1exceptions.Own:') // uWSGI calls the module after the whole path
    .split('\n')
  const isTrace = (line: string) =>
    /^ {0,2}( {2}File| {4}|\w+(Error|Exception):|\w+\.Own|\w*Own:|During handling)/.test(line)
  const isOwn = (line: string) => line.includes('<frozen importlib')
  return [...new Set(lines.filter(line => isTrace(line) && !isOwn(line)))].sort()
}

/** Returns the pairs and the body, without modifier2, which is spoold's state byte. */
function describePacket(bytes: Buffer): string {
  const end = 4 + bytes.readUInt16LE(1)
  const vars = parseVars(bytes.toString('latin1'), 4, end)
  assert.ok(!('fault' in vars))
  return JSON.stringify([
    toPairs(vars).map(pair => pair.map(each => each.toString('latin1'))),
    bytes.toString('latin1', end),
  ])
}
