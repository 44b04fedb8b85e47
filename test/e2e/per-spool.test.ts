import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { type Daemon, startDaemon, writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { isAlive } from '../helpers/process.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** Journals begin and end of each task; `wait` names a file to wait for, and `fail` makes the task fail. */
const handler = (journal: string, whose: string) => `
import { appendFileSync, existsSync } from 'node:fs'
const tell = line => appendFileSync(${JSON.stringify(journal)}, line + '\\n')
export default async (env, task) => {
  tell('${whose} begins ' + env.n + ' ' + task.attempt + ' in ' + process.cwd())
  while (env.wait && !existsSync(env.wait)) await new Promise(resolve => setTimeout(resolve, 5))
  if (env.fail) throw new Error('no way')
  tell('${whose} ends ' + env.n)
  return task.SPOOL_OK
}`

/** Starts a daemon with the spool `spool`, which has the global options, and `own`, with `options` and its own handler. */
async function startTwo(options: string, ini: Readonly<Record<string, string | number | boolean>> = {}) {
  const spool = spoolDirectory()
  const directory = dirname(spool)
  const own = join(directory, 'own')
  const journal = join(directory, 'journal')
  const [all, import_] = [join(directory, 'all.mjs'), join(directory, 'own.mjs')]
  writeFileSync(all, handler(journal, 'all'))
  writeFileSync(import_, handler(journal, 'own'))
  const settings = (own2: string) => ({ ...ini, spooler: spool, 'spooler-import': all, spooler2: own2 })
  const describe = (text: string) => `dir=${own},import=${import_}${text === '' ? '' : `,${text}`}`
  const daemon = await startDaemon({ spool, isForeign: true, ini: settings(describe(options)) })
  const put = (where: string, n: string, vars: Readonly<Record<string, string>> = {}) =>
    drop(where, n, packet({ n, ...vars }))
  return {
    daemon,
    spool,
    own,
    directory,
    put,
    has: (line: RegExp | string) =>
      daemon.journal().some(each => each === line || (line instanceof RegExp && line.test(each))),
    /** Writes the ini again. */
    change: (text: string) => writeIni(daemon.iniFile, settings(describe(text))),
  }
}

/** The living workers of a spool. */
function workersOf(daemon: Daemon, spool: string): number[] {
  const spawned = daemon.output.matchAll(/spawned the uWSGI spooler on dir (\S+) with pid (\d+)/g)
  return [...spawned].flatMap(([, dir, pid]) => (dir === spool && isAlive(Number(pid)) ? [Number(pid)] : []))
}

describe('a spool with options of its own', () => {
  it('has its own processes, handlers and directory, while the other spool has the global ones', async () => {
    const { daemon, spool, own, put, has } = await startTwo('processes=3,chdir=/', { 'spooler-processes': 2 })
    await until(
      'the processes run',
      () => workersOf(daemon, own).length === 3 && workersOf(daemon, spool).length === 2,
    )
    assert.equal(daemon.workers().filter(isAlive).length, 5)
    put(spool, 'one')
    put(own, 'two')
    await until('both tasks are done', () => has('all ends one') && has('own ends two'))
    assert.ok(has(`all begins one 1 in ${spool}`))
    assert.ok(has('own begins two 1 in /'))
    await until('both tasks are removed', () => leftIn(spool).length + leftIn(own).length === 0)
  })

  it('has its own harakiri, concurrency and limits of attempts and crashes', async () => {
    const { daemon, spool, own, directory, put, has } = await startTwo(
      'harakiri=1,concurrency=2,max-attempts=2,max-crashes=1',
      {
        'spooler-backoff': 'none',
      },
    )
    const never = join(directory, 'never')
    put(spool, 'long', { wait: never })
    await until('the task of the other spool runs', () => has(/^all begins long/))
    put(own, 'long', { wait: never })
    await daemon.waitFor(`[spooler ${own} pid:`)
    await daemon.waitFor(/task long overran spooler-harakiri/)
    assert.equal(daemon.output.match(/overran/g)?.length, 1)
    assert.doesNotMatch(daemon.output, new RegExp(`spooler ${spool} pid: \\d+\\] task long overran`))
    await until('the task that overran is buried', () => existsSync(join(own, '.spoold/dead/long')))
    writeFileSync(never, '')
    await until('the task of the other spool ends', () => has('all ends long'))

    const gate = join(directory, 'gate')
    for (const n of ['a', 'b']) put(own, n, { wait: gate })
    await until('both tasks of the spool run', () => has(/^own begins a/) && has(/^own begins b/))
    for (const n of ['c', 'd']) put(spool, n, { wait: gate })
    await until('one task of the other spool runs', () => has(/^all begins [cd]/))
    assert.equal(daemon.journal().filter(line => /^all begins [cd]/.test(line)).length, 1)
    writeFileSync(gate, '')
    await until('all tasks are done', () => leftIn(spool).length + leftIn(own).length === 0)

    put(spool, 'bad', { fail: '1' })
    put(own, 'bad', { fail: '1' })
    await until('the task of the other spool fails on and on', () => has(/^all begins bad 4/))
    await until('the task of the spool is buried', () => existsSync(join(own, '.spoold/dead/bad')))
    assert.deepEqual([has(/^own begins bad 2/), has(/^own begins bad 3/)], [true, false])
    assert.ok(!existsSync(join(spool, '.spoold/dead/bad')))
  })

  it('has its own frequency, strict-names, ordered and quiet', async () => {
    const { daemon, spool, own, put, has } = await startTwo('frequency=1,strict-names,quiet,ordered', {
      'spooler-watch': 'off',
      'spooler-frequency': 600,
    })
    put(own, 'uwsgi_spoolfile_on_first')
    put(own, 'free')
    put(spool, 'later')
    mkdirSync(join(own, '3'))
    mkdirSync(join(spool, '3'))
    put(join(own, '3'), 'uwsgi_spoolfile_on_priority')
    put(join(spool, '3'), 'priority')
    await until(
      'the tasks of the spool are found',
      () => has(/^own ends .*first/) && has(/^own ends .*priority/),
    )
    assert.equal(has(/^all/), false)
    daemon.child.kill('SIGUSR1')
    await until('the task of the other spool is found, too', () => has('all ends later'))
    await daemon.waitFor('done with task later')
    assert.doesNotMatch(daemon.output, /done with task uwsgi_spoolfile/)
    assert.deepEqual([leftIn(own), leftIn(spool)], [['free'], ['3/priority']])
  })

  it('has no worker while idle if it is cheap, and ends a running task after its own mercy', async () => {
    const { daemon, spool, own, directory, put, has } = await startTwo('cheap,worker-reload-mercy=1')
    await until('only the other spool has a worker', () => {
      const [mine, others] = [workersOf(daemon, own).length, workersOf(daemon, spool).length]
      return mine === 0 && others === 1 && daemon.workers().filter(isAlive).length === 1
    })
    const gate = join(directory, 'gate')
    put(spool, 'long', { wait: gate })
    put(own, 'long', { wait: gate })
    await until('both tasks run', () => has(/^all begins long/) && has(/^own begins long/))
    const [worker = 0] = workersOf(daemon, own)
    daemon.child.kill('SIGTERM')
    await until('the mercy of the spool is over', () => !isAlive(worker))
    assert.equal(workersOf(daemon, spool).length, 1)
    writeFileSync(gate, '')
    assert.equal(await daemon.code(), 0)
    assert.deepEqual([has('all ends long'), has('own ends long')], [true, false])
    assert.deepEqual([leftIn(spool), leftIn(own)], [[], ['long']])
  })

  it('gets what a reload changes, while the other spool keeps its number of processes', async () => {
    const { daemon, spool, own, put, has, change } = await startTwo('processes=1', { 'spooler-processes': 2 })
    await until(
      'the processes run',
      () => workersOf(daemon, own).length === 1 && workersOf(daemon, spool).length === 2,
    )
    change('processes=3,max-attempts=1')
    daemon.child.kill('SIGHUP')
    await daemon.waitFor('the spoolers are reloaded')
    await until(
      'the spool has three workers',
      () => workersOf(daemon, own).length === 3 && workersOf(daemon, spool).length === 2,
    )
    put(own, 'bad', { fail: '1' })
    await until('the task is buried', () => existsSync(join(own, '.spoold/dead/bad')))
    change('processes=many')
    daemon.child.kill('SIGHUP')
    await daemon.waitFor(
      /the reload is rejected.*app\.ini:5: error: spooler2: processes: expected a whole number/s,
    )
    put(own, 'good')
    await until('the next task has run', () => has('own ends good'))
    assert.deepEqual([workersOf(daemon, own).length, workersOf(daemon, spool).length], [3, 2])
  })

  it('is a destination by name, and the default one for enqueue if it is first in the ini', async () => {
    const { daemon, spool, own, has, directory } = await startTwo('', { socket: ':0' })
    const enqueue = (...args: string[]) => spoold(['enqueue', ...args], { cwd: directory })
    const address = /uwsgi socket 0 bound to TCP address (\S+)/.exec(daemon.output)?.[1] ?? ''
    const port = `127.0.0.1:${address.split(':').at(-1)}`
    assert.equal((await enqueue('--socket', port, `spooler=${own}`, 'n=net')).code, 0)
    assert.equal((await enqueue('--ini', daemon.iniFile, `spooler=${own}`, 'n=named')).code, 0)
    assert.equal((await enqueue('--ini', daemon.iniFile, 'n=default')).code, 0)
    await until(
      'the tasks have run',
      () => has('own ends net') && has('own ends named') && has('all ends default'),
    )
    const text = readFileSync(daemon.iniFile, 'utf8')
    const first = join(directory, 'first.ini')
    writeFileSync(
      first,
      text.replace(`spooler = ${spool}`, '').replace(/^spooler2 .*$/m, `$&\nspooler = ${spool}`),
    )
    assert.equal((await enqueue('--ini', first, 'n=first')).code, 0)
    await until('the task has run', () => has('own ends first'))
  })

  it('loads Python code of its own, which may enqueue and use @spool', {
    skip: skipUnless('python3'),
  }, async () => {
    const directory = dirname(spoolDirectory())
    const [a, b] = [join(directory, 'a'), join(directory, 'b')]
    const journal = join(directory, 'journal')
    const code = (whose: string, spool: string) => `
import uwsgi
from uwsgidecorators import spool
if not uwsgi.i_am_the_spooler(): uwsgi.spool({b'n': b'${whose}', b'spooler': b'${spool}'})
@spool
def work(env): pass
def spooler(env):
    with open(${JSON.stringify(journal)}, 'a') as out: out.write('${whose} runs ' + env[b'n'].decode() + '\\n')
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`
    for (const [whose, spool] of [
      ['a', a],
      ['b', b],
    ] as const)
      writeFileSync(join(directory, `${whose}_tasks.py`), code(whose, spool))
    const ini = ['a', 'b'].map(
      each => `dir=${join(directory, each)},processes=2,shared-import=${directory}/${each}_tasks.py`,
    )
    const daemon = await startDaemon({
      spool: join(directory, 'spool'),
      isForeign: true,
      isAside: true,
      ini: { python: PYTHON, spooler2: ini },
    })
    await until('both tasks have run', () => daemon.journal().length === 2)
    assert.deepEqual(daemon.journal().sort(), ['a runs a', 'b runs b'])
  })
})

describe('a spool that spooler names twice', () => {
  it('has twice the processes, as in uWSGI', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, ini: { spooler: [spool, `${spool}/.`] } })
    await until('the spool has both workers', () => daemon.workers().length === 2)
    assert.equal(daemon.output.split(`spawned the uWSGI spooler on dir ${spool} with pid`).length - 1, 2)
  })
})
