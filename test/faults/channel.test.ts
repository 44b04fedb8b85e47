import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { startHost } from '../hosts/host-daemon.js'

/** What a handler does to descriptor 3, which is the worker's way to its master. */
const ACTS: Readonly<Record<string, string>> = {
  'writes a line': `fs.writeSync(3, 'hello\\n')`,
  'writes a line and runs on': `fs.writeSync(3, 'hello\\n'); return new Promise(done => setTimeout(done, 20, -2))`,
  'writes half a frame': `fs.writeSync(3, Buffer.from([1, 2, 3, 4, 100, 0, 0, 0, 5, 1, 2]))`,
  'writes a part of a head': `fs.writeSync(3, Buffer.from([1, 2]))`,
  'writes a frame of 4 GiB': `fs.writeSync(3, Buffer.from([1, 2, 3, 4, 255, 255, 255, 255, 5]))`,
  'writes JSON': `fs.writeSync(3, JSON.stringify({ type: 'unfit', error: 'made up' }) + '\\n')`,
  'reads from it': `try { fs.readSync(3, Buffer.alloc(8)) } catch {}`,
  'closes it': `fs.closeSync(3)`,
  'sends null': `process.send(null)`,
  'sends a message that is none of its own': `process.send({ type: 'unfit', error: 'made up' })`,
  'sends, and waits until it is sent': `return new Promise(sent => process.send({}, () => sent(-2)))`,
}

describe('what a handler does to the way between worker and master', () => {
  const spool = spoolDirectory()
  const acts = Object.entries(ACTS).map(([act, code]) => `${JSON.stringify(act)}() { ${code}; return -2 },`)
  const starting = startDaemon({
    spool,
    handler: `import fs from 'node:fs'
      const acts = { none() { return -2 }, ${acts.join('\n')} }
      export default env => {
        JOURNAL(env.n)
        return acts[env.act]()
      }`,
    ini: { 'spooler-processes': 2 },
  })

  let n = 0
  for (const act of Object.keys(ACTS))
    it(`costs at most that worker, if it ${act}`, async () => {
      const daemon = await starting
      const [one, ...others] = Array.from({ length: 21 }, () => String(n++))
      drop(spool, `guilty-${one}`, packet({ act, n: one ?? '' }))
      for (const each of others) drop(spool, `innocent-${each}`, packet({ act: 'none', n: each }))
      await until('all have run', () => leftIn(spool).length === 0)
      const ran = daemon.journal()
      for (const each of others) assert.ok(ran.includes(each), `${each} ran`)
      assert.ok(daemon.isRunning)
    })

  it('is told in the log, buries no other task, and none of it is believed', async () => {
    const daemon = await starting
    const dead = leftIn(join(spool, '.spoold/dead')) // one that runs on is killed for it, each time
    assert.deepEqual(
      dead.filter(name => !name.startsWith('guilty-')),
      [],
    )
    assert.match(daemon.output, /what came from it cannot be dealt with: it does not begin as a frame/)
    assert.match(daemon.output, /something has closed its descriptor 3/)
    assert.doesNotMatch(daemon.output, /made up/)
  })

  it('reaches none of its children: they have none of its descriptors', async () => {
    const own = spoolDirectory()
    const other = await startDaemon({
      spool: own,
      handler: `import { execFileSync, spawn } from 'node:child_process'
        import { readdirSync, readlinkSync } from 'node:fs'
        const targets = text => text.split('\\n').flatMap(line => /-> (\\S+)/.exec(line)?.[1] ?? [])
        const own = () => readdirSync('/proc/self/fd').flatMap(fd => {
          try { return fd > 2 && fd < 250 ? readlinkSync('/proc/self/fd/' + fd) : [] } catch { return [] }
        })
        export default async env => {
          const mine = own()
          const sync = targets(execFileSync('ls', ['-l', '/proc/self/fd'], { encoding: 'utf8' }))
          const child = spawn('ls', ['-l', '/proc/self/fd'], { stdio: ['ignore', 'pipe', 'ignore'] })
          let text = ''
          for await (const chunk of child.stdout) text += chunk
          const had = [...sync, ...targets(text)].filter(target => mine.includes(target) && target !== '/dev/null')
          JOURNAL(mine.some(target => target.startsWith('socket:')) + ' ' + had.join())
          return -2
        }`,
    })
    drop(own, 'one', packet({ n: '1' }))
    await until('it has run', () => leftIn(own).length === 0)
    assert.deepEqual(other.journal(), ['true '])
  })
})

describe('what a Python handler does to its descriptors', { skip: skipUnless('python3') }, () => {
  for (const [what, code] of Object.entries({
    writes: "os.write(3, b'hello\\n')",
    closes: 'os.close(3)',
    'writes to all': "[os.write(fd, b'x') for fd in (3, 4, 5, 6)]",
  }))
    it(`that ${what} costs at most its interpreter`, async () => {
      const spool = spoolDirectory()
      const handler = `
import os
def spooler(env):
    if 'act' in env or b'act' in env:
        try:
            ${code}
        except OSError:
            pass
    journal('ran')
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`
      const daemon = await startHost('python', { spool, handler })
      drop(spool, 'a', packet({ act: 'yes' }))
      for (let i = 0; i < 20; i++) drop(spool, `b${i}`, packet({ n: String(i) }))
      await until('all have run', () => leftIn(spool).length === 0)
      assert.ok(daemon.journal().length >= 21)
      assert.ok(daemon.isRunning)
    })
})

describe('what a program does to its descriptors', () => {
  it('costs nobody anything', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      isForeign: true,
      ini: { 'spooler-exec': 'for fd in 3 4 5 6 7; do eval "echo hello >&$fd"; done 2>/dev/null; true' },
    })
    for (let i = 0; i < 5; i++) drop(spool, `b${i}`, packet({ n: String(i) }, 'a body'))
    // also the hidden names under which finished files are removed
    await until('all have run', () => readdirSync(spool).every(name => name === '.spoold'))
    assert.ok(daemon.isRunning)
  })
})
