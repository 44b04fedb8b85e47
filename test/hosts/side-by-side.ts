import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { HEADER_BYTES } from '#src/formats/protocol/header.js'
import { parseVars, toPairs } from '#src/formats/protocol/vars.js'
import { type DaemonSetup, readJournal, writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { UWSGI } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { FIXTURES, spoolDirectory } from '../helpers/workspace.js'
import { type Language, OPTIONS, SUFFIXES, startHost, writeHandler } from './host-daemon.js'

/** A program of fixtures/hosts, and its tasks. */
export interface Program {
  readonly language: Exclude<Language, 'python'>
  readonly name: string
  /** The bytes of spool files, by their place in the spool. */
  readonly tasks: Readonly<Record<string, Buffer>>
  /** More lines of the ini. */
  readonly ini?: DaemonSetup['ini']
  /** True if the order differs, because uWSGI finds new tasks by a scan and spoold at once. */
  readonly hasOwnOrder?: true
  /** True if nothing but repetitions follows. */
  isOver(seen: Seen): boolean
}

/** What can be seen of a run. */
export interface Seen {
  /** The lines that the program journaled, each once, in the order of the first time: a task that is kept runs again. */
  readonly calls: readonly string[]
  /** How many lines it journaled. */
  readonly journaled: number
  /** The tasks left in the spool: a generated name is `*`, and keys are sorted, because a Perl hash has no order. */
  readonly left: readonly string[]
  /** The lines of the log about tasks, and those that the program printed, each once, sorted: two processes write them. */
  readonly log: readonly string[]
}

/** Runs the program under Debian's uWSGI and under spoold, from one ini, and asserts that both do the same. */
export async function compare(program: Program): Promise<void> {
  const theirs = await runUnderUwsgi(program)
  const ours = await runUnderSpoold(program, theirs)
  for (const what of ['calls', 'left', 'log'] as const) assert.deepEqual(ours[what], theirs[what])
}

export const EVERY_BYTE = Buffer.from(Array.from({ length: 256 }, (_, i) => i))

export function name(what: string): string {
  return `uwsgi_spoolfile_on_${what}`
}

/** Returns a task for each answer, named after it. */
export function asked(answers: readonly string[]): Program['tasks'] {
  return Object.fromEntries(answers.map(a => [name(a), packet({ a })]))
}

const HOUR_MS = 3_600_000
const LATE_MS = 10_000
const PLUGIN = { perl: 'psgi', ruby: 'rack_ruby31' } as const

/** Returns the ini that both read. */
function settingsOf({ language, ini = {} }: Program): DaemonSetup['ini'] {
  return {
    plugin: PLUGIN[language],
    master: true,
    cache2: 'name=default,items=10', // without it uWSGI has no cache
    'spooler-frequency': 1,
    'spooler-ordered': true,
    ...ini,
  }
}

async function runUnderUwsgi(program: Program): Promise<Seen> {
  const spool = fillSpool(program)
  const handler = writeHandler(spool, program.language, sourceOf(program), program.name)
  const iniFile = join(dirname(spool), 'app.ini')
  writeIni(iniFile, { spooler: spool, [OPTIONS[program.language]]: handler, ...settingsOf(program) })
  return watch(program, spool, new TestProcess(UWSGI, [iniFile], { cwd: dirname(spool) }))
}

async function runUnderSpoold(program: Program, theirs: Seen): Promise<Seen> {
  const spool = fillSpool(program)
  const { language, name } = program
  const ini = settingsOf(program)
  const daemon = await startHost(language, { spool, handler: sourceOf(program), name, ...(ini && { ini }) })
  return watch(program, spool, daemon, theirs)
}

function fillSpool({ tasks }: Program): string {
  const spool = spoolDirectory()
  for (const [place, bytes] of Object.entries(tasks)) {
    mkdirSync(dirname(join(spool, place)), { recursive: true })
    drop(dirname(join(spool, place)), basename(place), bytes)
  }
  return spool
}

function sourceOf({ language, name }: Program): string {
  return readFileSync(join(FIXTURES, 'hosts', language, `${name}.${SUFFIXES[language]}`), 'utf8')
}

/** @param expected what the run is to look like, waited for because the last lines of the log may come late */
async function watch(program: Program, spool: string, daemon: TestProcess, expected?: Seen): Promise<Seen> {
  const look = () => {
    const journal = readJournal(dirname(spool))
    return {
      calls: program.hasOwnOrder ? unique(journal).sort() : unique(journal),
      journaled: journal.length,
      left: leftIn(spool).flatMap(place => describe(spool, place)),
      log: unique(daemon.output.split('\n').flatMap(line => normalize(line, spool))).sort(),
    }
  }
  let overSince = Number.POSITIVE_INFINITY
  try {
    return await until(
      `${program.name} is over`,
      () => {
        const seen = look()
        if (!program.isOver(seen) || !isTold(program, seen)) return undefined
        overSince = Math.min(overSince, performance.now())
        const isAsExpected = expected === undefined || isDeepStrictEqual(seen.log, expected.log)
        return isAsExpected || performance.now() - overSince > LATE_MS ? seen : undefined
      },
      120_000,
    ) // uWSGI tries a task again once per scan, and a busy machine stretches each
  } catch (error) {
    throw new Error(`${String(error)}\n${JSON.stringify(look(), null, 1)}\n${daemon.output}`)
  } finally {
    daemon.child.kill('SIGINT')
    await daemon.exited
  }
}

/** True if the log has its lines about all tasks, which come later than what they tell of. */
function isTold({ tasks }: Program, { left, log }: Seen): boolean {
  const begun = log.flatMap(line => /managing request (\S+)/.exec(line)?.[1] ?? [])
  const isBegun = (name: string) => begun.includes(name) || !name.startsWith('uwsgi_')
  if (!Object.keys(tasks).every(place => isBegun(basename(place)))) return false
  const kept = (name: string) => left.some(place => `/${place}`.includes(`/${name} `))
  return begun.every(name => kept(name) || log.some(line => line.includes(`done with task ${name} `)))
}

function unique(lines: readonly string[]): string[] {
  return [...new Set(lines)]
}

/** Returns a line about a task file, or none if the file is just being removed. */
function describe(spool: string, place: string): string[] {
  try {
    const path = join(spool, place)
    const { mtimeMs } = statSync(path)
    const text = readFileSync(path, 'latin1')
    const end = HEADER_BYTES + Buffer.from(text, 'latin1').readUInt16LE(1)
    const vars = parseVars(text, HEADER_BYTES, end)
    const pairs =
      'cuts' in vars ? toPairs(vars).map(pair => pair.map(part => part.toString('latin1')).join('=')) : []
    // only spoold's files say when a retry is due
    const due = mtimeMs > Date.now() + HOUR_MS ? ` due ${Math.round(mtimeMs / 1000)}` : ''
    return [`${place.replace(/_on_.*_\d+_\d+$/, '*')} ${pairs.sort().join(' ')} ${text.slice(end)}${due}`]
  } catch {
    return []
  }
}

/** Returns a line about tasks, or of the program, without what differs by run; none for each daemon's own lines. */
function normalize(line: string, spool: string): string[] {
  if (/^printed|^a line of the handler/.test(line)) return [line]
  const own = line.replaceAll(spool, 'SPOOL').replace(/pid: \d+/, 'pid: N')
  if (!/^\[spooler/.test(own) || !/managing request|done with task|written/.test(own)) return []
  return [own.replace(/_on_\S*_\d+_\d+/, '*').replace(/after [\d.]+ seconds/, 'after N seconds')]
}
