import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { BootedSystemd, SPOOLD } from '../helpers/booted-systemd.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'

/** Notes in the spool when each task begins and ends. A task with a key `until` lasts until there is a file of that name. */
const HANDLER = `
import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
export default async (env, task) => {
  appendFileSync('.journal', 'began ' + env.n + '\\n')
  while (env.until && !existsSync(env.until)) await setTimeout(5)
  appendFileSync('.journal', 'ended ' + env.n + '\\n')
  return task.SPOOL_OK
}`

describe('a real systemd', { skip: skipUnless('root', 'systemd', 'systemd-boot') }, () => {
  const machine = new BootedSystemd()
  before(async () => {
    await machine.ready()
    machine.run('useradd --system --create-home app')
  })

  /** Makes a configuration, and its unit, which `start` starts. `ctl` is systemctl. */
  function application(name: string, options: Record<string, string>, flags = '') {
    const home = `/home/app/${name}`
    const isUsers = flags.includes('--user')
    const as = isUsers ? 'runuser -u app -- env XDG_RUNTIME_DIR=/run/app ' : ''
    const ctl = `${as}systemctl ${isUsers ? '--user ' : ''}`
    const unit = isUsers
      ? `/home/app/.config/systemd/user/${name}.service`
      : `/etc/systemd/system/${name}.service`
    machine.run(`install -d -o app ${home} ${home}/spool`)
    machine.write(`${home}/h.mjs`, HANDLER)
    const all = { spooler: `${home}/spool`, 'spooler-import': 'h.mjs', ...options }
    const lines = Object.entries(all).map(([option, value]) => `${option} = ${value}`)
    machine.write(`${home}/app.ini`, `[uwsgi]\n${lines.join('\n')}\n`)
    machine.run(
      `cd ${home}; ${as}${SPOOLD} unit ${flags} app.ini >${home}.unit; cp ${home}.unit ${unit}; ${ctl} daemon-reload`,
    )
    return {
      ctl: (words: string) => machine.run(`${ctl} ${words} ${name}`),
      property: (property: string) => machine.run(`${ctl} show --value -p ${property} ${name}`).trim(),
      enqueue: (pairs: string) =>
        machine.run(`${as}${SPOOLD} enqueue --quiet --spooler ${home}/spool ${pairs} 2>/dev/null`),
      journal: () => machine.read(`${home}/spool/.journal`),
      open: (file: string) => machine.write(`${home}/spool/${file}`, ''),
    }
  }
  type Application = ReturnType<typeof application>

  /** Stops the service while a task runs, and asserts that the task ends before the service does. */
  async function stopsWithMercy(app: Application): Promise<void> {
    app.enqueue('n=last until=.goes-on')
    await until('the task has begun', () => app.journal().includes('began last'))
    app.ctl('stop --no-block')
    await until('the service stops', () => app.property('ActiveState') === 'deactivating')
    app.open('.goes-on')
    await until('the service has stopped', () => app.property('ActiveState') === 'inactive')
    assert.equal(app.property('Result'), 'success')
    assert.match(app.journal(), /ended last\n$/)
  }

  it('runs a hardened service: tasks, a reload, a reload that is refused, a stop with mercy', async () => {
    const app = application('hardened', { uid: 'app', gid: 'app' }, '--hardened')
    app.ctl('start')
    assert.equal(app.property('ActiveState'), 'active')
    app.enqueue('n=first')
    await until('the task has ended', () => app.journal().includes('ended first'))
    const pid = app.property('MainPID')
    app.ctl('reload')
    machine.run('echo spooler-processes = many >>/home/app/hardened/app.ini')
    app.ctl('reload')
    await until('systemd knows why', () =>
      /^reload refused: .*app\.ini:\d+: .*got "many"$/.test(app.property('StatusText')),
    )
    assert.equal(app.property('MainPID'), pid)
    await stopsWithMercy(app)
  })

  it('replaces a killed daemon, which runs its task again', async () => {
    const app = application('killed', { uid: 'app', gid: 'app' })
    app.ctl('start')
    app.enqueue('n=once until=.opened')
    await until('the task has begun', () => app.journal().includes('began once'))
    app.ctl('kill --signal=SIGKILL')
    await until('another daemon runs it', () => app.journal().split('began once').length === 3)
    app.open('.opened')
    await until('the task has ended', () => app.journal().includes('ended once'))
    assert.equal(app.property('NRestarts'), '1')
    app.ctl('stop')
  })

  for (const [name, options] of [
    ['background', { uid: 'app', gid: 'app' }],
    ['rooted', { uid: 'app', gid: 'app', 'master-as-root': 'true' }],
  ] as const)
    it(`gives running tasks their mercy after daemonize: ${name}`, async () => {
      const log = `/home/app/${name}.log`
      const app = application(name, { ...options, daemonize: log, pidfile: `/run/${name}.pid` })
      machine.run(
        `touch ${log}; chown app ${log}; sed -i '/^User=/d; /^Group=/d' /etc/systemd/system/${name}.service`,
      )
      app.ctl('daemon-reload; systemctl start')
      assert.equal(`${app.property('MainPID')}\n`, machine.read(`/run/${name}.pid`))
      await stopsWithMercy(app)
    })

  it('runs a hardened service of a user', async () => {
    machine.write(
      '/etc/systemd/system/of-app.service',
      '[Service]\nUser=app\nEnvironment=XDG_RUNTIME_DIR=/run/app\nType=notify\nExecStart=/lib/systemd/systemd --user\nDelegate=yes\n',
    )
    machine.run('install -d -o app -m 700 /run/app; systemctl daemon-reload; systemctl start of-app')
    machine.run('runuser -u app -- mkdir -p /home/app/.config/systemd/user')
    const app = application('users', {}, '--user --hardened')
    app.ctl('start')
    await stopsWithMercy(app)
    machine.run('systemctl stop of-app')
  })
})
