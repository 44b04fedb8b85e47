import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { HOOK_KOFFI } from '../helpers/koffi-hooks.js'
import { isLong } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { cpuShare } from '../helpers/usage.js'
import { spoolDirectory } from '../helpers/workspace.js'

/**
 * Is loaded before the daemon and each of its workers. While the file of TROUBLE names a call and an error, that call fails
 * with that error for every path in the spool.
 */
const TROUBLE = `${HOOK_KOFFI}
  import fs from 'node:fs'
  import { syncBuiltinESMExports } from 'node:module'
  const { readFileSync } = fs
  const [control, spool] = JSON.parse(process.env.TROUBLE)
  const fds = new Set()
  const isOurs = target => typeof target === 'number' ? fds.has(target) : String(target).startsWith(spool)
  const check = (name, target) => {
    let now = ''
    try { now = readFileSync(control, 'utf8') } catch {}
    const [call, code] = now.split(' ')
    if (call === name && isOurs(target)) throw Object.assign(new Error(code + ': injected, ' + name), { code })
  }
  const wrap = (table, name) => {
    const original = table[name]
    table[name] = (target, ...rest) => {
      check(name, target)
      const result = original(target, ...rest)
      if (name === 'openSync' && isOurs(target)) fds.add(result)
      return result
    }
  }
  for (const name of ['openSync', 'fstatSync', 'readSync', 'writeSync', 'futimesSync', 'unlinkSync', 'renameSync', 'writeFileSync', 'mkdirSync', 'readdirSync'])
    wrap(fs, name)
  const { opendir, stat } = fs.promises
  fs.promises.opendir = async (...args) => { check('opendir', args[0]); return opendir(...args) }
  fs.promises.stat = async (...args) => { check('stat', args[0]); return stat(...args) }
  syncBuiltinESMExports()
  hookKoffi((name, target, proceed) => {
    check(name, target)
    const result = proceed()
    if (name === 'openSync' && isOurs(target) && result >= 0) fds.add(result)
    return result
  })`

const HANDLER = `
  export default (env, task) => {
    JOURNAL(env.n)
    return env.answer === 'retry' && task.attempt === 1 ? task.SPOOL_RETRY : task.SPOOL_OK
  }`

const ERRORS = ['EIO', 'ENOSPC', 'EDQUOT', 'EROFS', 'EMFILE', 'ENFILE', 'EACCES', 'ESTALE', 'EINTR', 'ENOENT']
const CALLS = [
  'openSync',
  'fstatSync',
  'readSync',
  'writeSync',
  'futimesSync',
  'unlinkSync',
  'renameSync',
  'opendir',
  'readdirSync',
]
const EVERY = CALLS.flatMap(call => ERRORS.map(code => `${call} ${code}`))
const SOME = ['openSync EMFILE', 'readSync EIO', 'writeSync ENOSPC', 'unlinkSync EROFS', 'readdirSync EACCES']
const TASKS = 4
/** How long the trouble goes on once it is known, in ms, and how much of that time all processes together may work. */
const TROUBLED_MS = 1200
const CPU_SHARE = 0.5

describe('while a file operation fails', () => {
  it('the daemon reports the error once, idles, and goes on when it is over', async t => {
    const spool = spoolDirectory()
    const directory = dirname(spool)
    const [control, preload] = [join(directory, 'trouble'), join(directory, 'trouble.mjs')]
    writeFileSync(preload, TROUBLE)
    const daemon = await startDaemon({
      spool,
      handler: HANDLER,
      ini: { 'spooler-frequency': 1, 'spooler-quiet': true },
      env: { NODE_OPTIONS: `--import=${preload}`, TROUBLE: JSON.stringify([control, spool]) },
    })
    for (const trouble of isLong ? EVERY : SOME) {
      const names = Array.from(
        { length: TASKS },
        (_, i) => `uwsgi_spoolfile_on_${trouble.replace(' ', '_')}_${i}`,
      )
      const saidBefore = daemon.output.length
      writeFileSync(control, trouble)
      for (const [i, name] of names.entries())
        drop(spool, name, packet({ n: name, ...(i % 2 === 0 ? {} : { answer: 'retry' }) }))
      const isTold = () => daemon.output.slice(saidBefore).includes(`${trouble.split(' ')[1]}: `)
      if (!isLong) await until(`${trouble} is reported`, isTold) // some troubles are not reported
      await setTimeout(TROUBLED_MS) // the length of the trouble is part of the case
      const share = await cpuShare(daemon, TROUBLED_MS)
      rmSync(control)
      assert.ok(
        share < CPU_SHARE,
        `${trouble}: all processes worked ${Math.round(share * 100)} % of the time`,
      )
      await until(`${trouble}: all tasks have run`, () =>
        leftIn(spool).every(name => name.startsWith('.')),
      ).catch(error => {
        throw new Error(`${error.message}: ${leftIn(spool)}\n${daemon.output.slice(saidBefore)}`)
      })
      const said = daemon.output
        .slice(saidBefore)
        .split('\n')
        .filter(line => line.includes(`${trouble.split(' ')[1]}: `))
      for (const name of names) {
        const aboutIt = said.filter(line => line.includes(name))
        assert.equal(
          new Set(aboutIt).size,
          aboutIt.length,
          `${trouble} was reported again: ${aboutIt.join('\n')}`,
        )
        const runs = daemon.journal().filter(n => n === name).length
        const isRetry = Number(name.slice(-1)) % 2 === 1
        // A file system that denies that a file is there makes the task run again.
        const mayRunAgain = isRetry || trouble.endsWith('ENOENT')
        assert.ok(runs >= 1 && (mayRunAgain || runs === 1), `${trouble}: ${name} ran ${runs} times`)
      }
      if (!trouble.endsWith('ENOENT')) assert.ok(isLong || said.length > 0, `${trouble} was not reported`)
      t.diagnostic(`${trouble}: ${said.length} lines, ${Math.round(share * 100)} % of a core`)
    }
  })
})
