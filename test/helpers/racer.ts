import { TestProcess } from './process.js'
import { ROOT } from './workspace.js'

/** The acts of a racer on files that are about to be claimed, run and settled. */
export const ACTS = [
  'file', // another task is renamed over it
  'symlink',
  'fifo',
  'directory',
  'hard-link',
  'away', // moved out of the spool, and back
  'delete',
  'truncate',
  'append',
] as const

/**
 * A program that drops tasks and races the daemon for them, in the order in which the daemon runs them. It writes the tasks that
 * must run, because it left them intact, to `required`; tasks that it destroyed are not in there.
 */
const SCRIPT = `
  import { appendFileSync, linkSync, mkdirSync, renameSync, rmdirSync, symlinkSync, truncateSync, unlinkSync, writeFileSync } from 'node:fs'
  import { execFileSync } from 'node:child_process'
  import { setTimeout } from 'node:timers/promises'
  import { encodePacket } from '#src/formats/protocol/packet.js'
  const { spool, outside, name, races, acts, tail } = JSON.parse(process.argv[1])
  const { Tail } = await import(tail)
  const BATCH = 100
  const hidden = spool + '/.racer-' + name
  const fifo = outside + '/fifo-' + name
  execFileSync('mkfifo', [fifo])
  const bytes = vars => encodePacket(Object.entries(vars).map(pair => pair.map(text => Buffer.from(text))))
  const required = [], tally = {}
  // a missing file has been run already
  const attempt = run => { try { run(); return true } catch (error) { if (!['ENOENT', 'EEXIST', 'EISDIR', 'ENOTDIR', 'ENOTEMPTY', 'ENXIO'].includes(error.code)) throw error; return false } }
  const place = (path, vars) => { writeFileSync(hidden, bytes(vars)); renameSync(hidden, path) }
  const perform = {
    file: ({ path, vars }) => { const n = vars.n + 'b'; place(path, { ...vars, n }); return n },
    symlink: ({ path }) => { symlinkSync(outside + '/bait', hidden); renameSync(hidden, path) },
    fifo: ({ path }) => { linkSync(fifo, hidden); renameSync(hidden, path) },
    directory: ({ path }) => { unlinkSync(path); mkdirSync(path) },
    'hard-link': ({ path, vars }) => { attempt(() => linkSync(path, path + '-link')); return vars.n },
    away: ({ path, vars }) => {
      const away = outside + '/away-' + name
      renameSync(path, away)
      for (const until = performance.now() + Math.random(); performance.now() < until;);
      renameSync(away, path)
      return vars.n
    },
    delete: ({ path }) => unlinkSync(path),
    truncate: ({ path }) => truncateSync(path, Math.floor(Math.random() * 12)),
    append: ({ path, vars }) => { truncateSync(path, 200); return vars.n },
  }
  const journal = new Tail(spool + '/../journal')
  for (let i = 0; i < races; i += BATCH) {
    const slots = new Map(Array.from({ length: BATCH }, (_, j) => {
      const act = acts[Math.floor(Math.random() * acts.length)]
      // no process may replace a quick task with a generated name (docs/spool-format.md)
      const isSlow = Math.random() < 0.6, isGenerated = isSlow && Math.random() < 0.5
      const n = name + '.' + (i + j)
      return [n, {
        act,
        path: spool + '/' + (isGenerated ? 'uwsgi_spoolfile_on_' : '') + 'racer' + n,
        vars: { n, ...(isSlow ? { ms: '2' } : {}) },
        at: Infinity,
      }]
    }))
    for (const { path, vars } of slots.values()) place(path, vars)
    const begun = performance.now(), pace = Math.random() * 0.3, before = journal.lines.length
    // quick tasks at any time, slow ones while they run or just after
    for (const [j, slot] of [...slots.values()].entries()) if (slot.vars.ms === undefined) slot.at = begun + j * pace
    for (let read = before; slots.size > 0; ) {
      const now = performance.now()
      if (now > begun + 5000) for (const slot of slots.values()) slot.at = now
      for (const lines = journal.read(); read < lines.length; read++) {
        const slot = slots.get(lines[read])
        if (slot !== undefined && slot.at === Infinity) slot.at = now + Math.random() * 3
      }
      for (const slot of slots.values()) {
        if (slot.at > performance.now()) continue
        slots.delete(slot.vars.n)
        let left = slot.vars.n
        const isWon = attempt(() => { left = perform[slot.act](slot) })
        if (isWon) tally[slot.act] = (tally[slot.act] ?? 0) + 1
        else left = slot.vars.n
        if (left !== undefined) required.push(left)
      }
      await setTimeout(0)
    }
  }
  writeFileSync(outside + '/required-' + name, required.join('\\n'))
  console.log(JSON.stringify(tally))`

const TAIL = new URL('./witness.js', import.meta.url).href

interface RacerSetup {
  readonly spool: string
  /** A directory next to the spool. The racer's links lead to the file `bait` in it. */
  readonly outside: string
  readonly name: string
  readonly races: number
  readonly acts?: readonly (typeof ACTS)[number][]
}

export function startRacer({ acts = ACTS, ...setup }: RacerSetup): TestProcess {
  const args = ['--input-type=module', '-e', SCRIPT, JSON.stringify({ ...setup, acts, tail: TAIL })]
  return new TestProcess(process.execPath, args, { cwd: ROOT })
}
