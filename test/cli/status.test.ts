import assert from 'node:assert/strict'
import { chmodSync, chownSync, linkSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { askDaemon } from '#src/engines/control/client.js'
import { giveAway, USER } from '../helpers/canaries.js'
import { spoold } from '../helpers/cli.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import { startDaemon, writeIni } from '../helpers/daemon.js'
import { drop } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

const enqueue = (spool: string, ...rest: string[]) =>
  spoold(['enqueue', '--quiet', '--spooler', spool, ...rest])
const BLOCKED = `import { existsSync } from 'node:fs'
  import { setTimeout } from 'node:timers/promises'
  export default async (env, task) => {
    JOURNAL('begun')
    if (env.fail !== undefined) throw new Error('no')
    while (!existsSync(env.until)) await setTimeout(10)
    return task.SPOOL_OK
  }`

describe('spoold status', () => {
  it('no longer counts removed tasks while a quiet daemon runs nothing', async () => {
    const spool = spoolDirectory()
    await startDaemon({ spool, ini: { 'spooler-frequency': 1 } })
    assert.equal((await spoold(['quiet', spool])).code, 0)
    for (const key of ['a=1', 'b=2']) await enqueue(spool, key)
    await until('both tasks are known', async () => (await spoolSnapshotOf(spool)).tasks.due === 2)
    assert.equal((await spoold(['rm', '--all', spool])).code, 0)
    await until('no task is due', async () => (await spoolSnapshotOf(spool)).tasks.due === 0)
  })

  it('counts the tasks of a spool once in its first line, however many daemons run it', async () => {
    const spool = spoolDirectory()
    for (let n = 0; n < 2; n++) await startDaemon({ spool })
    await enqueue(spool, '--at', '+1h', 'a=b')
    const firstLine = async (...flags: string[]) =>
      (await spoold(['status', ...flags, spool])).stdout.split('\n')[0]
    await until('both daemons count the task', async () => {
      const { spools } = JSON.parse((await spoold(['status', '--json', spool])).stdout)
      return (
        spools.length === 2 &&
        spools.every((each: { tasks: { waiting: number } }) => each.tasks.waiting === 1)
      )
    })
    assert.equal(await firstLine(), 'SPOOLD OK: 0 due, 0 running, 1 waiting, 0 dead')
    assert.equal(
      await firstLine('--max-due', '5', '--max-failure-rate', '5%'),
      'SPOOLD OK: 0 due, 0 running, 1 waiting, 0 dead | due=0;;5;0 failure_rate=0%;;5;0',
    )
  })

  it('gives monitoring the value that one daemon of a spool knows, not the U of another that does not know it', async () => {
    const spool = spoolDirectory()
    await startDaemon({ spool })
    assert.equal((await spoold(['quiet', spool])).code, 0)
    await enqueue(spool, 'a=b')
    const first = join(spool, '.spoold/control')
    await until('the task is known', async () => (await spoolSnapshotOf(spool)).tasks.oldestDueMs !== null)
    const known = JSON.stringify(await askDaemon(first, 'snapshot', { spool }))
    const unknown = known.replace(/"oldestDueMs":[\d.]+/, '"oldestDueMs":null')
    assert.notEqual(unknown, known)
    const second = createServer(socket => {
      socket.on('error', () => {})
      socket.on('data', () => socket.write(`{"v":1,"id":1,"ok":${unknown}}\n`))
    })
    after(() => second.close())
    await new Promise<void>(resolve => second.listen(`${first}.2`, resolve))
    const { stdout } = await spoold(['status', '--max-age', '1h', spool])
    assert.match(stdout, /^SPOOLD UNKNOWN: age is not known; .* \| age=[\d.]+s;;3600;0$/m)
  })

  it('prints what a daemon knows, and judges it', async () => {
    const spool = spoolDirectory()
    const end = join(dirname(spool), 'end')
    for (const priority of ['3', '7']) mkdirSync(join(spool, priority)) // a new directory looks like a task until it is opened
    const daemon = await startDaemon({
      spool,
      handler: BLOCKED,
      ini: { 'spooler-max-attempts': 1, 'spooler-ordered': true },
    })
    await enqueue(spool, 'fail=1')
    await until('the task is buried', async () => (await spoolSnapshotOf(spool)).totals.buried === 1)
    await enqueue(spool, '--at', '+1h', 'a=b')
    await until(
      'a worker has looked at the later task',
      async () => (await spoolSnapshotOf(spool)).tasks.waiting === 1,
    )
    for (const priority of ['3', '7', '7']) await enqueue(spool, '--priority', priority, `until=${end}`)
    await until('a task runs', () => daemon.journal().length === 2)
    await until('the daemon knows all due tasks', async () => (await spoolSnapshotOf(spool)).tasks.due === 2)
    const { code, stdout } = await spoold(['status', '--max-due', '1,9', '--max-dead', '0', spool])
    const [first = '', ...screen] = stdout.trimEnd().split('\n')
    assert.equal(
      first,
      'SPOOLD CRITICAL: 2 due, more than 1; 1 dead letter, more than 0; 2 due, 1 running, 1 waiting, 1 dead | due=2;1;9;0 dead=1;;0;0',
    )
    assert.equal(code, 2)
    const text = screen.join('\n')
    assert.ok(
      text.includes(`pid ${daemon.pid} `) && text.includes('7: 2') && text.includes('1 (1 attempts)'),
      text,
    )
    assert.ok(text.includes('100 % failed in 5 minutes'), text)
    assert.match(text, /pid \d+ +\d+ s; 1 done, \d+ MB; 3\/uwsgi_spoolfile_on_/)
    assert.deepEqual(
      screen.filter(line => line.length > 80),
      [],
    )

    const json = await spoold(['status', '--json', '--ini', daemon.iniFile, '--max-due', '1,9'])
    assert.equal(json.code, 1)
    const { version, level, spools } = JSON.parse(json.stdout)
    assert.deepEqual(
      [version, level, spools.length, spools[0].source, spools[0].daemon.pid],
      [1, 'WARNING', 1, 'daemon', daemon.pid],
    )
    writeFileSync(end, '')
  })

  it('names pauses and a quiet daemon, and names pauses even after the daemon was killed', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool })
    assert.equal((await spoold(['pause', '--key', 'kind=mail', spool])).code, 0)
    assert.match((await spoold(['status', spool])).stdout, /^ +paused +tasks with kind=mail$/m)
    assert.equal((await spoold(['pause', '--until', '2100-01-01T00:00:00Z', spool])).code, 0)
    daemon.child.kill('SIGTSTP')
    await until('the daemon is quiet', () => daemon.output.includes('PAUSE'))
    const { stdout } = await spoold(['status', spool])
    assert.match(stdout, /^SPOOLD OK: .* 0 dead, paused/)
    assert.match(stdout, /all tasks, until 2100-01-01T00:00:00Z/)
    assert.match(stdout, /quiet: it gives out no tasks/)
    daemon.child.kill('SIGKILL')
    await daemon.exited
    assert.match((await spoold(['status', spool])).stdout, /all tasks, until 2100-01-01T00:00:00Z/)
  })

  it('says, as ls, fsck, doctor and pause do, that it is unknown what is paused if it cannot read the pause file', {
    skip: skipUnless('root'),
  }, async () => {
    const spool = spoolDirectory()
    assert.equal((await spoold(['pause', '--key', 'kind=mail', spool])).code, 0)
    chmodSync(dirname(spool), 0o755)
    giveAway(spool)
    chownSync(join(spool, '.spoold/paused'), 0, 0)
    const { stdout } = await spoold(['status', spool])
    assert.match(stdout, /^ +paused +unknown, because .*paused cannot be read: EACCES/m)
    assert.match(stdout, /^SPOOLD .* 0 dead$/m)
    assert.match(
      (await spoold(['ls', spool])).stderr,
      /paused: unknown, because .*paused cannot be read: EACCES/,
    )
    const ini = join(dirname(spool), 'app.ini')
    writeIni(ini, { spooler: spool, 'spooler-exec': '/bin/true' })
    for (const args of [
      ['fsck', spool],
      ['doctor', ini],
      ['pause', spool],
    ]) {
      const { stdout: said, stderr, code } = await spoold(args)
      const text = said + stderr
      assert.equal(code, 1, text)
      assert.match(text, /unknown what is paused/)
      assert.doesNotMatch(text, /no task starts|the whole spool is paused|resume --all/)
    }
  })

  it('shows the directory when the daemon was killed', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool })
    daemon.child.kill('SIGKILL')
    await daemon.exited
    await enqueue(spool, 'a=1')
    await enqueue(spool, '--at', '+1h', 'a=1')
    drop(spool, 'broken', Buffer.from([17, 9]))
    const { code, stdout } = await spoold(['status', '--json', spool])
    const [status] = JSON.parse(stdout).spools
    assert.equal(code, 1)
    assert.deepEqual(
      [status.source, status.because, status.reasons],
      ['directory', null, ['no daemon answers']],
    )
    assert.deepEqual([status.states, status.tasks.stored], [{ due: 1, waiting: 1, incomplete: 1 }, 3])
    assert.equal((await spoold(['status', '--max-due', '0', spool])).code, 2)
  })

  it('exits with 3 if it cannot know the state, and with 64 if its arguments are wrong', async () => {
    const spool = spoolDirectory()
    for (const path of [join(spool, 'gone'), '/dev/null']) {
      const { code, stdout } = await spoold(['status', path])
      assert.equal(code, 3)
      assert.match(stdout, /^SPOOLD UNKNOWN: /)
    }
    assert.equal((await spoold(['status'])).code, 64)
    assert.equal((await spoold(['status', '--max-due', 'x', spool])).code, 64)
    assert.equal((await spoold(['status', '--control', join(spool, 'no.sock')])).code, 3)
  })

  it('believes no other program at the control sockets, and waits for none', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '.spoold'), { mode: 0o700 })
    const servers: Server[] = []
    const listen = (name: string, answer: string | undefined) =>
      new Promise<void>(resolve => {
        const server = createServer(socket => {
          socket.on('error', () => {})
          if (answer !== undefined) socket.on('data', () => socket.write(answer))
        })
        servers.push(server)
        server.listen(join(spool, '.spoold', name), resolve)
      })
    after(() => servers.map(server => server.close()))
    await listen('control', 'HTTP/1.1 400 Bad Request\r\n\r\n')
    await listen('control.2', '{"v":1,"id":1,"ok":{"version":1,"spools":[{}]}}\n')
    await listen('control.3', '{"v":1,"id":1,"ok":{"version":9}}\n')
    const { code, stdout, stderr } = await spoold(['status', spool])
    assert.equal(code, 3, stdout)
    assert.match(stdout, /cannot be asked/)
    assert.equal(stderr, '')
  })
})

describe('spoold status as root', { skip: skipUnless('root') }, () => {
  it("acts as the owner of another user's spool, and sends nothing through links there", async () => {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    giveAway(spool)
    const roots = workspace()
    const heard: string[] = []
    const server = createServer(socket =>
      socket.on('error', () => {}).on('data', data => heard.push(String(data))),
    )
    after(() => server.close())
    await new Promise<void>(resolve => server.listen(join(roots, 'root.sock'), resolve))
    chmodSync(join(roots, 'root.sock'), 0o777)
    const state = join(spool, '.spoold')
    mkdirSync(state, { mode: 0o700 })
    chownSync(state, USER, USER)
    symlinkSync(join(roots, 'root.sock'), join(state, 'control'))
    linkSync(join(roots, 'root.sock'), join(state, 'control.2'))
    const { code, stdout } = await spoold(['status', spool])
    assert.notEqual(code, 0, stdout)
    assert.deepEqual(heard, [], 'nothing was sent to a socket of root')
  })

  it('asks the daemon of another user', async () => {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o777)
    giveAway(spool)
    const daemon = await startDaemon({ spool, ini: { uid: USER, gid: USER } })
    const { code, stdout } = await spoold(['status', '--json', spool])
    assert.equal(code, 0, stdout)
    assert.deepEqual(
      [JSON.parse(stdout).spools[0].daemon.pid, JSON.parse(stdout).spools[0].daemon.uid],
      [daemon.pid, USER],
    )
  })
})
