// Times from exec: an empty drain, commands, and the first task of a backlog.
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  BIN,
  fill,
  inPairs,
  isInstalled,
  leftOnTmpfs,
  memoryOf,
  startSpoold,
  startUwsgi,
  until,
  withDirectory,
} from './harness.mjs'

const BACKLOGS = [
  { files: 100_000, wanted: '≤ 0.25 s' },
  { files: 1_000_000, wanted: '≤ 0.5 s' },
]
const TWO = ['--spooler-processes', '2']

export const title = 'Start'
export const about =
  'tmpfs, no-op tasks, quiet, from exec. What only starts is beside a bare `node`, what runs tasks beside uWSGI.'

export async function run({ pairs, scale, say }) {
  const rows = []
  const add = (figure, unit, digits, peer, { mine, theirs, ratio, low, high }, wanted = '') => {
    const of = value => `${value.toFixed(digits)} ${unit}`
    const spread = `${ratio.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`
    say(`${figure}: ${of(mine)} / ${of(theirs)} = ${spread}`)
    rows.push({
      figure,
      spoold: of(mine),
      peer: `${peer}: ${of(theirs)}`,
      'ratio, median (spread)': spread,
      wanted,
    })
  }
  for (const [name, wanted] of [
    ['drain of an empty spool', '≤ 0.20 s'],
    ['--help'],
    ['ls'],
    ['enqueue'],
    ['check'],
  ]) {
    const [result] = await inPairs(pairs, () => command(name), node)
    add(name, 's', 2, 'node -e 0', result, wanted)
  }
  if (isInstalled('uwsgi'))
    for (const { files, wanted } of BACKLOGS) await firstTask(Math.round(files * scale), wanted)
  return { rows }

  /** Uses one spool for all pairs: each run takes a few thousand of its tasks. */
  async function firstTask(files, wanted) {
    await withDirectory('memory', async directory => {
      const spool = join(directory, 'spool')
      fill(spool, files)
      const results = await inPairs(
        pairs,
        () => first(spool, startSpoold(directory, spool, [...TWO, '--spooler-quiet'])),
        () => first(spool, startUwsgi(directory, spool, [...TWO, '--spooler-quiet'])),
      )
      const [seconds, memory] = results
      add(`first task of ${files.toLocaleString('en')}`, 's', 3, 'uWSGI', seconds, wanted)
      add('… memory of the master then, peak', 'MB', 0, 'uWSGI', memory, files > 500_000 ? '≤ 120 MB' : '')
    })
  }
}

async function first(spool, daemon) {
  const startedAt = performance.now()
  const total = leftOnTmpfs(spool)
  try {
    await until('it begins', () => leftOnTmpfs(spool) < total, undefined, 1)
    return { seconds: (performance.now() - startedAt) / 1000, memory: memoryOf(daemon.pid) }
  } finally {
    await daemon.stop()
  }
}

function command(name) {
  return withDirectory('memory', directory => {
    const spool = join(directory, 'spool')
    const handler = join(directory, 'noop.mjs')
    mkdirSync(spool)
    writeFileSync(handler, 'export default (env, task) => task.SPOOL_OK\n')
    const daemon = ['--spooler', spool, '--spooler-import', handler]
    const args = {
      'drain of an empty spool': ['--drain', '--spooler-quiet', ...daemon],
      '--help': ['--help'],
      ls: ['ls', spool],
      enqueue: ['enqueue', '--spooler', spool, 'to=joe'],
      check: ['check', ...daemon],
    }[name]
    return timed([BIN, ...args])
  })
}

const node = () => timed(['-e', '0'])

function timed(args) {
  const startedAt = performance.now()
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${args.join(' ')} exited with code ${status}: ${stderr}`)
  return { seconds: (performance.now() - startedAt) / 1000 }
}
