import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { readJournal } from '../helpers/daemon.js'
import { drop, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { freePort } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { asOptions, UWSGIS, type Uwsgi } from '../helpers/uwsgi.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

/** Returns a site whose ini, which spoold reads too, has everything that only one program can have. */
function site(uwsgi: Uwsgi) {
  const spool = spoolDirectory()
  const directory = dirname(spool)
  const [web, stats] = [freePort(), freePort()]
  writeFileSync(
    join(directory, 'site_app.py'),
    `
import uwsgi
def spooler(env):
    with open(${JSON.stringify(join(directory, 'journal'))}, 'a') as out:
        out.write(env[b'n'].decode() + '\\n')
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
def application(environ, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain')])
    return [b'the site']
`,
  )
  const settings = {
    ...uwsgi.python,
    master: 'true',
    'die-on-term': 'true',
    module: 'site_app:application',
    pythonpath: directory,
    socket: join(directory, 'site.sock'),
    'http-socket': `127.0.0.1:${web}`,
    pidfile: join(directory, 'site.pid'),
    logto: join(directory, 'site.log'),
    stats: `127.0.0.1:${stats}`,
    'master-fifo': join(directory, 'site.fifo'),
    vacuum: 'true',
    spooler: spool,
    'spooler-frequency': '1',
  }
  const ini = join(directory, 'site.ini')
  const lines = Object.entries(settings).map(([key, value]) => `${key} = ${value}`)
  writeFileSync(ini, `[uwsgi]\n${lines.join('\n')}\n`)
  const at = (name: string) => join(directory, name)
  return {
    ...{ spool, ini, at },
    startUwsgi: () => new TestProcess(uwsgi.command, [ini], { cwd: directory }),
    async startSpoold() {
      const daemon = new TestProcess(process.execPath, [BIN, ini, ...asOptions(uwsgi.samePython)], {
        cwd: directory,
      })
      await daemon.waitFor(/is running \(pid: \d+\)/)
      return daemon
    },
    /** Asserts that everything of the site belongs to this uWSGI. */
    async isServedBy(peer: TestProcess) {
      const body = await until('the site answers', () => get(web).catch(() => undefined))
      assert.equal(body, 'the site')
      assert.equal(readFileSync(at('site.pid'), 'utf8'), `${peer.pid}\n`)
      const statistics = await text(connect(stats, '127.0.0.1')) // what uWSGI sends may be no JSON
      assert.equal(/"pid":(\d+)/.exec(statistics)?.[1], String(peer.pid))
      for (const file of ['site.sock', 'site.fifo', 'site.log']) assert.ok(existsSync(at(file)), file)
      assert.doesNotMatch(readFileSync(at('site.log'), 'utf8'), /\*\*\* spoold/)
    },
    async runsTasks() {
      const before = readJournal(directory).length
      drop(spool, undefined, packet({ n: 'task' }))
      await until('a task has run', () => readJournal(directory).length > before)
    },
  }
}

async function get(port: number): Promise<string> {
  return (await fetch(`http://127.0.0.1:${port}/`)).text()
}

for (const uwsgi of UWSGIS)
  describe(`the ini of a web site, for ${uwsgi.title} and spoold`, { skip: skipUnless(uwsgi.needs) }, () => {
    it('lets uWSGI start while spoold runs, and the site stays as it is when spoold stops', async () => {
      const { startSpoold, startUwsgi, isServedBy, runsTasks, at } = site(uwsgi)
      const daemon = await startSpoold()
      const beginning = daemon.output.split('\n').slice(0, 5).join('\n')
      assert.match(beginning, /site\.ini:\d+: warning: left to uWSGI, because module \(.*spooler-take = /)
      for (const file of ['site.pid', 'site.sock', 'site.fifo', 'site.log'])
        assert.ok(!existsSync(at(file)), `${file} belongs to the site, but spoold made it`)
      await runsTasks()
      const peer = startUwsgi()
      await isServedBy(peer)
      daemon.child.kill('SIGTERM')
      assert.equal(await daemon.code(), 0)
      await isServedBy(peer)
      writeFileSync(at('site.fifo'), 'q')
      await peer.exited
    })

    it("lets spoold start beside the site, and a command in the site's FIFO does not reach spoold", async () => {
      const { startSpoold, startUwsgi, isServedBy, runsTasks, at, ini } = site(uwsgi)
      const peer = startUwsgi()
      await isServedBy(peer)
      for (const command of ['check', 'doctor']) {
        const { code, stdout, stderr } = await spoold([command, ini])
        assert.equal(code, 0, stdout + stderr)
        const said = stdout + stderr
        assert.match(
          said,
          /site\.ini:\d+.*left to uWSGI, because module \(\S+:\d+\) is served on socket \(\S+:\d+\)/,
        )
        for (const name of ['pidfile', 'logto', 'stats', 'master-fifo', 'vacuum'])
          assert.match(said, new RegExp(`${name} \\(\\S+site\\.ini:\\d+\\)`))
      }
      const daemon = await startSpoold()
      await isServedBy(peer)
      await runsTasks()
      writeFileSync(at('site.fifo'), 'q')
      await peer.exited
      assert.ok(daemon.isRunning, 'q stops the site, and not spoold')
      await runsTasks()
      daemon.child.kill('SIGTERM')
      assert.equal(await daemon.code(), 0)
    })

    it('leaves uWSGI its pidfile when spoold stops, even if both have it and the ini serves no site', async () => {
      const spool = spoolDirectory()
      const directory = dirname(spool)
      const [ini, pidfile] = [join(directory, 'both.ini'), join(directory, 'both.pid')]
      writeFileSync(
        join(directory, 'handlers.py'),
        'import uwsgi\nuwsgi.spooler = lambda env: uwsgi.SPOOL_OK\n',
      )
      const settings = { ...uwsgi.python, master: 'true', 'die-on-term': 'true', pidfile }
      const lines = Object.entries(settings).map(([key, value]) => `${key} = ${value}`)
      writeFileSync(
        ini,
        `[uwsgi]\n${lines.join('\n')}\nvacuum = true\nspooler = ${spool}\npythonpath = ${directory}\nspooler-python-import = handlers\n`,
      )
      const daemon = new TestProcess(process.execPath, [BIN, ini, ...asOptions(uwsgi.samePython)], {
        cwd: directory,
      })
      await daemon.waitFor(/is running \(pid: \d+\)/)
      const peer = new TestProcess(uwsgi.command, [ini], { cwd: directory })
      await until('uWSGI has written its pid', () => readFileSync(pidfile, 'utf8') === `${peer.pid}\n`)
      daemon.child.kill('SIGTERM')
      assert.equal(await daemon.code(), 0)
      assert.equal(readFileSync(pidfile, 'utf8'), `${peer.pid}\n`)
    })
  })
