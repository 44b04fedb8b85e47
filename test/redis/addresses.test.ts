import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { spool } from '#src/engines/client/spool.js'
import { inProcess, spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import type { TestProcess } from '../helpers/process.js'
import { PYTHON } from '../helpers/python.js'
import { freePort } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { startServer, startWatched } from '../helpers/sentinel.js'
import { patience, until } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'
import { daemonOn } from './redis-daemon.js'

const TELLING = `export default (env, task) => { JOURNAL(env.n); return task.SPOOL_OK }`
const SECRET = 's3cr3t-login'
/** The limit for nodes of a cluster to meet, which takes them two seconds. */
const MEET_MS = 15_000
const isMissing = skipUnless('redis-server')

/** Fails unless a program, a command and a daemon can use the address. */
async function isUsable(spooler: string): Promise<void> {
  await spool({ n: 'program' }, { spooler })
  const typed = await spoold(['enqueue', '--spooler', spooler, 'n=command'])
  assert.equal(typed.code, 0, typed.stderr)
  const later = await spoold(['enqueue', '--spooler', spooler, 'n=later', '--at', '+1s', '--id', 'once'])
  assert.equal(later.code, 0, later.stderr)
  const daemon = await daemonOn(spooler, { handler: TELLING })
  await until('all tasks have run', () => daemon.journal().length === 3)
  assert.deepEqual(daemon.journal().toSorted(), ['command', 'later', 'program'])
  daemon.child.kill('SIGTERM')
  assert.equal(await daemon.code(), 0)
}

/** Starts a cluster, and returns its ports. They are guesses, and `redis-cli` waits for ever for nodes that do not meet. */
async function startCluster(triesLeft = 3): Promise<readonly number[]> {
  const ports = [freePort(), freePort(), freePort()]
  const hosts = ports.map(port => `127.0.0.1:${port}`)
  try {
    for (const port of ports)
      await startServer([
        ...['--port', String(port), '--cluster-enabled', 'yes', '--cluster-port', String(freePort())],
        ...['--cluster-config-file', 'nodes.conf'],
      ])
    const timeout = MEET_MS * patience()
    execFileSync('redis-cli', ['--cluster', 'create', ...hosts, '--cluster-yes'], { stdio: 'pipe', timeout })
    return ports
  } catch (error) {
    if (triesLeft === 1) throw error
    return startCluster(triesLeft - 1)
  }
}

function clusterSays(port: number, what: string): boolean {
  return execFileSync('redis-cli', ['-p', String(port), 'cluster', 'info'], { encoding: 'utf8' }).includes(
    what,
  )
}

/** Writes the certificates of an authority, a server and a client into a directory. */
function writeCertificates(directory: string): void {
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: directory, stdio: 'pipe' })
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
  openssl('req', '-x509', ...key, '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=an authority')
  for (const name of ['server', 'client'])
    openssl(
      ...['req', '-x509', ...key, '-keyout', `${name}.key`, '-out', `${name}.pem`, '-subj', `/CN=${name}`],
      ...['-CA', 'ca.pem', '-CAkey', 'ca.key', '-addext', 'subjectAltName=IP:127.0.0.1'],
    )
}

/** Starts a Redis that wants TLS, with the certificates of a directory. */
function startTls(directory: string, port: number): Promise<TestProcess> {
  const file = (name: string) => join(directory, name)
  return startServer([
    ...['--port', '0', '--tls-port', String(port), '--tls-ca-cert-file', file('ca.pem')],
    ...['--tls-cert-file', file('server.pem'), '--tls-key-file', file('server.key')],
  ])
}

describe('a spool on Redis', { skip: isMissing }, () => {
  it('is reached through a unix socket, under a prefix of its own', async () => {
    const directory = workspace()
    const socket = join(directory, 'redis.sock')
    await startServer(['--port', '0', '--unixsocket', socket])
    await isUsable(`redis+unix://${socket}/0/mail?prefix=app1`)
    const keys = execFileSync('redis-cli', ['-s', socket, 'keys', '*'], { encoding: 'utf8' })
    assert.match(keys, /^app1:mail:meta$/m)
    assert.doesNotMatch(keys, /^bull/m)
  })

  it('is named to handlers without its login, and they can store tasks by that name', {
    skip: skipUnless('python3'),
  }, async () => {
    const port = freePort()
    await startServer(['--port', String(port), '--requirepass', SECRET])
    const spooler = `redis://:${SECRET}@127.0.0.1:${port}/0/mail`
    const home = workspace()
    const handler = join(home, 'handler.py')
    writeFileSync(
      handler,
      `
import uwsgi

print('options', uwsgi.opt['celery-broker'], uwsgi.opt['spooler2'])

def spooler(env):
    print('given', env[b'n'], 'of', uwsgi.spoolers, uwsgi.opt['spooler'])
    if env[b'n'] == b'1':
        uwsgi.spool({b'n': b'2', b'spooler': uwsgi.spoolers[0]})
        return uwsgi.SPOOL_OK
    if env[b'n'] == b'2':
        return uwsgi.SPOOL_OK
    raise Exception('failed at %r' % (uwsgi.spoolers,))

uwsgi.spooler = spooler
`,
    )
    const ini = {
      ...{
        spooler,
        spooler2: `dir=${spooler},processes=1`,
        'celery-broker': 'redis://:its-own@localhost:6379/0',
      },
      ...{ import: handler, python: PYTHON, 'spooler-max-attempts': 1 },
    }
    const daemon = await startDaemon({ spool: join(home, 'unused'), isForeign: true, ini })
    assert.match(daemon.output, /options b'redis:\/\/:its-own@localhost:6379\/0' b'dir=redis:\/\/\[hidden\]@/)
    await spool({ n: '1' }, { spooler })
    await daemon.waitFor(/given b'2' of/)
    await spool({ n: '3' }, { spooler })
    await daemon.waitFor(/failed at/)
    assert.match(daemon.output, new RegExp(`of \\(b'redis://127.0.0.1:${port}/0/mail',\\) b'redis://127`))
    const [, id = ''] = await until('the failed task is dead', async () => {
      const { stdout } = await inProcess(['ls', spooler, '--state', 'dead', '--json'])
      return /"name":"([^"]+)"/.exec(stdout) ?? undefined
    })
    const dead = (await inProcess(['show', `${spooler}/${id}`])).stdout
    assert.match(dead, /failed at/)
    const { stdout, stderr } = await inProcess(['doctor', daemon.iniFile])
    assert.match(stdout, /handlers/i)
    for (const said of [daemon.output, dead, stdout, stderr]) assert.ok(!said.includes(SECRET), said)
  })

  it('is stored in the database that its address names, and nowhere if that database cannot be selected', async () => {
    const port = freePort()
    await startServer(['--port', String(port), '--bind', '127.0.0.1'])
    const asked = (...command: string[]) =>
      execFileSync('redis-cli', ['-p', String(port), ...command], { encoding: 'utf8' }).trim()
    asked('ACL', 'SETUSER', 'joe', 'on', '>secret', '~*', '&*', '+@all', '-select')
    for (const [address, why] of [
      [`redis://127.0.0.1:${port}/77/mail`, /no connection to redis:.*DB index is out of range/],
      [`redis://joe:secret@127.0.0.1:${port}/1/mail`, /no connection to redis:.*NOPERM.*'select'/],
    ] as const) {
      const typed = await spoold(['enqueue', '--spooler', address, 'n=1'])
      assert.equal(typed.code, 75, typed.stdout)
      assert.match(typed.stderr, why)
      const listed = await spoold(['ls', address])
      assert.equal(listed.code, 75, listed.stdout)
      const daemon = await daemonOn(address, { handler: TELLING })
      await daemon.waitFor('waiting for Redis')
      assert.match(daemon.output, why)
    }
    assert.equal(asked('DBSIZE'), '0')
    asked('ACL', 'SETUSER', 'joe', '+select')
    await isUsable(`redis://joe:secret@127.0.0.1:${port}/1/other`)
    assert.equal(asked('DBSIZE'), '0')
  })

  it('names the limit of clients if Redis lets no more in', async () => {
    const port = freePort()
    await startServer(['--port', String(port), '--maxclients', '1'])
    const only = new Redis(port)
    await only.ping()
    const address = `redis://127.0.0.1:${port}/0/mail`
    const refused = await spoold(['enqueue', '--spooler', address, 'n=1'])
    only.disconnect()
    assert.equal(refused.code, 75, refused.stdout)
    assert.match(refused.stderr, /lets no more clients in \(maxclients\)/)
    await until('there is room again', async () => (await spoold(['ls', address])).code === 0)
  })

  it('in a cluster is refused under the address of a single Redis, with the right one, and names what a node without an address needs', async () => {
    const port = freePort()
    const clusterPort = ['--cluster-port', String(freePort()), '--cluster-config-file', 'nodes.conf']
    await startServer(['--port', String(port), '--cluster-enabled', 'yes', ...clusterPort])
    const asked = (...command: string[]) =>
      execFileSync('redis-cli', ['-p', String(port), ...command], { encoding: 'utf8' }).trim()
    assert.equal(asked('CLUSTER', 'ADDSLOTSRANGE', '0', '16383'), 'OK')
    await until('the cluster is complete', () => clusterSays(port, 'cluster_state:ok'))
    const address = `redis+cluster://127.0.0.1:${port}/0/mail`
    const single = await spoold(['enqueue', '--spooler', `redis://127.0.0.1:${port}/0/mail`, 'n=1'])
    assert.match(single.stderr, /CROSSSLOT .*a spool in a cluster begins with redis\+cluster:/)
    const typed = await spoold(['enqueue', '--spooler', address, 'n=1'])
    assert.equal(typed.code, 75, typed.stdout)
    assert.match(typed.stderr, /no node of the cluster names its address \(cluster-announce-ip\)/)
    assert.equal(asked('CONFIG', 'SET', 'cluster-announce-ip', '127.0.0.1'), 'OK')
    await until('the node names its address', () => asked('CLUSTER', 'SLOTS').includes('127.0.0.1'))
    await isUsable(address)
  })

  it('is reached over TLS with its own authority and client certificate, or says what is wrong', async () => {
    const directory = workspace()
    const file = (name: string) => join(directory, name)
    writeCertificates(directory)
    const port = freePort()
    await startTls(directory, port)
    const address = `rediss://127.0.0.1:${port}/0/mail`
    const own = `ca=${file('ca.pem')}&cert=${file('client.pem')}&key=${file('client.key')}`
    await assert.rejects(spool({ n: 'unknown' }, { spooler: address }), {
      code: 'REDIS_UNREACHABLE',
      message: /certificate/,
    })
    await isUsable(`${address}?${own}`)
    const ca = `ca=${file('ca.pem')}`
    const place = `127.0.0.1:${port}`
    const wrong = [
      [`${address}?${ca}`, /: \S+ alert certificate required$|wants a certificate/],
      [`redis://${place}/0/mail`, /ECONNRESET, as of a port that wants TLS/],
      [`rediss+sentinel://${place}/main/0/mail`, /: nothing answers with TLS and a trusted certificate$/],
      [`rediss+sentinel://${place}/main/0/mail?${own}`, /: its sentinels: ERR unknown command/],
      [`rediss+cluster://${place}/0/mail`, /: nothing answers with TLS and a trusted certificate$/],
      [`rediss+cluster://${place}/0/mail?${own}`, /: ERR This instance has cluster support disabled$/],
      [`rediss+cluster://joe:secret@${place}/0/mail?${own}`, /: WRONGPASS /],
    ] as const
    const tried = ([spooler, message]: (typeof wrong)[number]) =>
      assert.rejects(spool({ n: 'wrong' }, { spooler }), { code: 'REDIS_UNREACHABLE', message })
    await Promise.all(wrong.map(tried))
    const unusable = [
      ['ca=/nowhere/ca.pem', /\?ca= of a spool on Redis: .*nowhere/],
      [`ca=${file('client.key')}`, /\?ca= of a spool on Redis: .*no start line/],
      [`cert=${file('client.pem')}&key=${file('ca.key')}`, /\?cert= and \?key= of a .*key values mismatch/],
      [`cert=${file('client.pem')}`, /expected both \?cert= and \?key=, or neither/],
    ] as const
    for (const [query, message] of unusable)
      await assert.rejects(spool({ n: 'unusable' }, { spooler: `${address}?${query}` }), {
        code: 'ADDRESS_INVALID',
        message,
      })
  })

  it('is reached again by a running daemon when the certificates of both sides, and their authority, were replaced', async () => {
    const directory = workspace()
    const file = (name: string) => join(directory, name)
    writeCertificates(directory)
    const port = freePort()
    const server = await startTls(directory, port)
    const address = `rediss://127.0.0.1:${port}/0/mail?ca=${file('ca.pem')}&cert=${file('client.pem')}&key=${file('client.key')}`
    const daemon = await daemonOn(address, { handler: TELLING })
    await spool({ n: 'before' }, { spooler: address })
    await until('the task has run', () => daemon.journal().includes('before'))
    server.child.kill('SIGKILL')
    await until('Redis has ended', () => !server.isRunning)
    writeCertificates(directory)
    await startTls(directory, port)
    await until('a task is stored by the program that stored one before', () =>
      spool({ n: 'after' }, { spooler: address, id: 'after' }).catch(() => false),
    )
    await until('the task has run', () => daemon.journal().includes('after'))
  })

  it('is reached through sentinels, even after a failover', async () => {
    const { master, sentinel, address: named } = await startWatched()
    const address = named('mail')
    await isUsable(address)
    const daemon = await daemonOn(address, { handler: TELLING })
    await spool({ n: 'before' }, { spooler: address })
    await until('the task has run', () => daemon.journal().includes('before'))
    master.child.kill('SIGKILL')
    await sentinel.waitFor('+switch-master')
    await until('a task is stored', () =>
      spool({ n: 'after' }, { spooler: address, id: 'after' }).catch(() => false),
    )
    await until('the task has run', () => daemon.journal().includes('after'))
  })

  it('leaves a master that sentinels have replaced while it still takes writes, which would be lost', async () => {
    const { sentinel, masterPort, address: named } = await startWatched()
    const spooler = named('mail')
    const daemon = await daemonOn(spooler, { handler: TELLING })
    await spool({ n: 'before' }, { spooler })
    await until('the task has run', () => daemon.journal().includes('before'))
    const asked = (port: string | number, ...command: string[]) =>
      execFileSync('redis-cli', ['-p', String(port), ...command], { encoding: 'utf8' })
    const clients = () => asked(masterPort, 'client', 'list').match(/name=spoold/g)?.length ?? 0
    assert.ok(clients() > 2, 'this process, the daemon and its worker')
    const [, port = ''] = /127\.0\.0\.1:(\d+)/.exec(spooler) ?? []
    asked(port, 'sentinel', 'failover', 'main')
    await sentinel.waitFor('+switch-master')
    await until('nobody is connected to it', () => clients() === 0)
    assert.match(asked(masterPort, 'role'), /^master/)
    await until('a task is stored', () => spool({ n: 'after' }, { spooler, id: 'after' }).catch(() => false))
    await until('the task has run', () => daemon.journal().includes('after'))
  })

  it('refuses tasks while its cluster is down', async () => {
    const ports = await startCluster()
    await until('all nodes know each other', () => ports.every(port => clusterSays(port, 'cluster_state:ok')))
    const address = `redis+cluster://127.0.0.1:${ports[0]}/0/mail`
    await spool({ n: '1' }, { spooler: address })
    for (const port of ports)
      execFileSync('redis-cli', ['-p', String(port), 'cluster', 'delslots', '0'], { stdio: 'ignore' })
    await until('the cluster is down', () => ports.every(port => clusterSays(port, 'cluster_state:fail')))
    await assert.rejects(spool({ n: '2' }, { spooler: address }), {
      code: 'REDIS_REFUSED',
      message: /takes no tasks now: .*CLUSTERDOWN/,
    })
  })

  it('has all of its keys on one node of a cluster', async () => {
    const ports = await startCluster()
    const [first = 0] = ports
    await until('all nodes know each other', () => ports.every(port => clusterSays(port, 'cluster_state:ok')))
    const address = `redis+cluster://127.0.0.1:${first}/0/idle`
    await spool({ n: 'first' }, { spooler: address })
    const clients = () =>
      ports
        .map(port => execFileSync('redis-cli', ['-p', String(port), 'client', 'list'], { encoding: 'utf8' }))
        .join('')
    await until('the idle connections of this process are closed', () => !clients().includes('name=spoold'))
    await spool({ n: 'second' }, { spooler: address })
    for (const name of ['mail', 'other', 'third'])
      await isUsable(`redis+cluster://127.0.0.1:${first}/0/${name}`)
    const counts = ports.map(port => {
      const keys = execFileSync('redis-cli', ['-p', String(port), 'keys', '*'], { encoding: 'utf8' })
      return new Set(keys.match(/^\{[^}]*\}/gm)).size
    })
    assert.equal(
      counts.reduce((sum, count) => sum + count),
      4,
      'each spool is on one node',
    )
  })
})
