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

/** What a handler does to descriptor 3, over which its worker speaks with the master. */
const ACTS: Readonly<Record<string, string>> = {
  'writes a line': `fs.writeSync(3, 'hello\\n')`,
  'writes a line and runs on': `fs.writeSync(3, 'hello\\n'); return new Promise(done => setTimeout(done, 20, -2))`,
  'writes half a frame': `fs.writeSync(3, Buffer.from([1, 2, 3, 4, 100, 0, 0, 0, 5, 1, 2]))`,
  'writes a part of a frame header': `fs.writeSync(3, Buffer.from([1, 2]))`,
  'writes a frame of 4 GiB': `fs.writeSync(3, Buffer.from([1, 2, 3, 4, 255, 255, 255, 255, 5]))`,
  'writes JSON': `fs.writeSync(3, JSON.stringify({ type: 'unfit', error: 'made up' }) + '\\n')`,
  'reads from it': `try { fs.readSync(3, Buffer.alloc(8)) } catch {}`,
  'closes it': `fs.closeSync(3)`,
  'sends null': `process.send(null)`,
  'sends a forged message': `process.send({ type: 'unfit', error: 'made up' })`,
  'sends a message, and waits until it is sent': `return new Promise(sent => process.send({}, () => sent(-2)))`,
}

describe('a handler that tampers with the channel between its worker and the master', () => {
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
    it(`costs at most its worker if it ${act}`, async () => {
      const daemon = await starting
      const [one, ...others] = Array.from({ length: 21 }, () => String(n++))
      drop(spool, `guilty-${one}`, packet({ act, n: one ?? '' }))
      for (const each of others) drop(spool, `innocent-${each}`, packet({ act: 'none', n: each }))
      await until('all tasks have run', () => leftIn(spool).length === 0)
      const ran = daemon.journal()
      for (const each of others) assert.ok(ran.includes(each), `${each} ran`)
      assert.ok(daemon.isRunning)
    })

  it('is reported in the log, gets no other task buried, and is not believed', async () => {
    const daemon = await starting
    const dead = leftIn(join(spool, '.spoold/dead')) // a handler that runs on is killed each time, and its task is buried for it
    assert.deepEqual(
      dead.filter(name => !name.startsWith('guilty-')),
      [],
    )
    assert.match(daemon.output, /what came from it cannot be dealt with: it does not begin as a frame/)
    assert.match(daemon.output, /something has closed its descriptor 3/)
    assert.doesNotMatch(daemon.output, /made up/)
  })

  it('has children that inherit none of its descriptors', async () => {
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
    await until('the task has run', () => leftIn(own).length === 0)
    assert.deepEqual(other.journal(), ['true '])
  })
})

describe('a Python handler that tampers with its descriptors', { skip: skipUnless('python3') }, () => {
  for (const [what, code] of Object.entries({
    'writes to descriptor 3': "os.write(3, b'hello\\n')",
    'closes descriptor 3': 'os.close(3)',
    'writes to descriptors 3 to 6': "[os.write(fd, b'x') for fd in (3, 4, 5, 6)]",
  }))
    it(`costs at most its interpreter if it ${what}`, async () => {
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
      await until('all tasks have run', () => leftIn(spool).length === 0)
      assert.ok(daemon.journal().length >= 21)
      assert.ok(daemon.isRunning)
    })
})

describe('a program that writes to descriptors 3 to 7', () => {
  it('harms neither the daemon nor other tasks', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      isForeign: true,
      ini: { 'spooler-exec': 'for fd in 3 4 5 6 7; do eval "echo hello >&$fd"; done 2>/dev/null; true' },
    })
    for (let i = 0; i < 5; i++) drop(spool, `b${i}`, packet({ n: String(i) }, 'a body'))
    // The hidden names under which finished files are removed are gone, too.
    await until('all tasks have run', () => readdirSync(spool).every(name => name === '.spoold'))
    assert.ok(daemon.isRunning)
  })
})
