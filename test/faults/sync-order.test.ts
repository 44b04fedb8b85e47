import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, it } from 'node:test'
import { skipUnless } from '../helpers/requires.js'
import { ROOT, spoolDirectory, workspace } from '../helpers/workspace.js'

const TASKS = 300

/** A system call with its first and last line in the log; it took effect in between. */
interface Call {
  readonly name: string
  readonly text: string
  readonly begins: number
  ends: number
}

/** Returns every call of the given kinds that a script makes, in the order of time. */
function callsOf(script: string, kinds: string): Call[] {
  const log = join(workspace(), 'log')
  const { status, stderr } = spawnSync(
    'strace',
    [
      '-f',
      '-y',
      '-s',
      '4096',
      '-e',
      `trace=${kinds}`,
      '-o',
      log,
      process.execPath,
      '--input-type=module',
      '-e',
      script,
    ],
    { cwd: ROOT, encoding: 'utf8' },
  )
  assert.equal(status, 0, stderr)
  const calls: Call[] = []
  const open = new Map<string, Call>()
  for (const [line, row] of readFileSync(log, 'utf8').split('\n').entries()) {
    const [, pid = '', rest = ''] = /^(\d+) +(.*)$/.exec(row) ?? []
    const name = /^(\w+)\(/.exec(rest)?.[1]
    if (name !== undefined) {
      const call = { name, text: rest, begins: line, ends: line }
      calls.push(call)
      if (rest.includes('<unfinished')) open.set(pid, call)
    } else if (/^<\.\.\. \w+ resumed>/.test(rest)) {
      const call = open.get(pid)
      if (call !== undefined) call.ends = line
    }
  }
  return calls
}

/** Returns a script whose callers mark each acknowledgement with a rmdir. */
const scriptOf = (spool: string, how: string) => `
  import { spool, spoolSync, Batch } from 'spoold'
  import { rmdirSync } from 'node:fs'
  const to = { spooler: ${JSON.stringify(spool)} }
  const acknowledge = path => { try { rmdirSync(path) } catch {} }
  let n = 0
  ${how}`

const WAYS: Readonly<Record<string, string>> = {
  '64 concurrent callers': `await Promise.all(Array.from({ length: 64 }, async () => {
    while (n++ < ${TASKS}) acknowledge(await spool({ n }, { ...to, ...(n % 3 ? {} : { priority: n % 5 }) }))
  }))`,
  'a batch': `const batch = new Batch(to)
    while (n++ < ${TASKS}) batch.add({ n }, n % 3 ? {} : { priority: n % 5 })
    for (const { path } of await batch.spool()) acknowledge(path)`,
  'one caller that blocks': `while (n++ < ${TASKS}) acknowledge(spoolSync({ n }, { ...to, ...(n % 3 ? {} : { priority: n % 5 }) }))`,
  'callers with ids': `await Promise.all(Array.from({ length: 16 }, async () => {
    while (n++ < ${TASKS}) acknowledge(await spool({ n }, { ...to, id: 'id ' + n }))
  }))`,
}

describe('an acknowledged task', { skip: skipUnless('strace') }, () => {
  for (const [way, how] of Object.entries(WAYS))
    it(`is on disk: first its data, then its name, then its directory: ${way}`, () => {
      const spool = spoolDirectory()
      const calls = callsOf(scriptOf(spool, how), 'fdatasync,fsync,rename,symlink,rmdir')
      const acknowledged = calls.filter(({ name }) => name === 'rmdir')
      assert.ok(acknowledged.length >= TASKS)
      const renames = new Map<string, Call>()
      const syncs = new Map<string, Call[]>()
      for (const call of calls) {
        const target = /, "([^"]*)"\)?/.exec(call.text)?.[1]
        if (call.name === 'rename' && target !== undefined) renames.set(basename(target), call)
        const file = /^f(?:data)?sync\(\d+<([^>]*)>/.exec(call.text)?.[1]
        if (file === undefined) continue
        for (const name of [file, basename(file)]) syncs.set(name, [...(syncs.get(name) ?? []), call])
      }
      for (const { text, begins } of acknowledged) {
        const path = /"([^"]*)"/.exec(text)?.[1] ?? ''
        const rename = renames.get(basename(path)) // below a priority, the path goes on from an open directory
        assert.ok(rename !== undefined, `${path} was never renamed`)
        const [, hidden = ''] = /"([^"]*)"/.exec(rename.text) ?? []
        assert.ok(
          syncs.get(basename(hidden))?.some(sync => sync.ends < rename.begins),
          `${hidden} was not synced before it was renamed`,
        )
        const directory = path.slice(0, path.lastIndexOf('/'))
        assert.ok(
          syncs.get(directory)?.some(sync => sync.begins > rename.ends && sync.ends < begins),
          `${directory} was not synced between the rename and the acknowledgement`,
        )
        if (way === 'callers with ids') {
          const promise = calls.find(
            call => call.name === 'symlink' && path.endsWith(`/${/"([^"]*)"/.exec(call.text)?.[1]}`),
          )
          assert.ok(promise !== undefined && promise.ends < rename.begins)
          const before = syncs.get(directory)?.some(sync => sync.ends < promise.begins)
          const after = syncs
            .get(`${spool}/.spoold/ids`)
            ?.some(sync => sync.begins > promise.ends && sync.ends < rename.begins)
          assert.ok(before && after, `the promise of ${path} was not on disk before its task`)
        }
      }
      const priorities = new Set([...renames.keys()].map(path => path.slice(0, path.lastIndexOf('/'))))
      for (const directory of priorities)
        if (directory !== spool)
          assert.ok(syncs.get(spool)?.length, 'new priorities are synced into the spool')
      const directorySyncs = calls.filter(({ name }) => name === 'fsync').length
      if (way === '64 concurrent callers')
        assert.ok(
          directorySyncs < TASKS / 3,
          `${directorySyncs} syncs of directories, so callers do not share them`,
        )
      if (way === 'a batch')
        assert.ok(
          directorySyncs <= priorities.size + 1,
          `${directorySyncs} syncs of directories, more than one for each`,
        )
    })
})
