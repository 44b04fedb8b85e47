import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { pauseSpool, resumeSpool } from '#src/engines/spool/pauses.js'
import { spoold } from '../helpers/cli.js'
import { type Daemon, type DaemonSetup, startDaemon, writeIni } from '../helpers/daemon.js'
import { exporterOf } from '../helpers/exporter.js'
import { drop, packet } from '../helpers/files.js'
import { childrenOf } from '../helpers/process.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const SECRET = 'zq-secret-of-the-test-71'
const TOKEN = 'zq-token-of-the-test-72'

interface Received {
  readonly path: string | undefined
  readonly signature: string | string[] | undefined
  readonly body: string
  readonly alarms: ReadonlyArray<Record<string, unknown>>
  readonly replaced: number
}

/** @param answer called with the number of each request, from 1 */
async function receiver(answer: (response: ServerResponse, number: number) => void) {
  const received: Received[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', data => {
      body += data
    })
    request.on('end', () => {
      const { alarms, replaced } = body === '' ? { alarms: [], replaced: 0 } : JSON.parse(body)
      const signature = request.headers['x-spoold-signature']
      received.push({ path: request.url, signature, body, alarms, replaced })
      answer(response, received.length)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { received, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

const taken = (response: ServerResponse) => response.writeHead(204).end()
const statesOf = (received: readonly Received[]) =>
  received.flatMap(({ alarms }) => alarms.map(({ kind, state }) => `${kind} ${state}`))

async function reload(daemon: Daemon, settings: DaemonSetup['ini']): Promise<void> {
  const spooler = join(daemon.directory, 'spool')
  writeIni(daemon.iniFile, { spooler, 'spooler-import': daemon.handlerFile, ...settings })
  daemon.child.kill('SIGHUP')
  await daemon.waitFor('the spoolers are reloaded')
}

const troubles = (output: string) => output.split('alarms are not delivered').length - 1

describe('spooler-alarm', () => {
  it('posts each burial once, signed, and shows neither secret nor URL', async () => {
    const hook = await receiver(taken)
    const spool = spoolDirectory()
    const [urlFile, secretFile] = [join(dirname(spool), 'url'), join(dirname(spool), 'secret')]
    writeFileSync(urlFile, `${hook.url}/${TOKEN}\n`, { mode: 0o600 })
    writeFileSync(secretFile, `${SECRET}\n`, { mode: 0o644 })
    const daemon = await startDaemon({
      spool,
      ini: { 'spooler-alarm': `url=@${urlFile},secret=@${secretFile}` },
      handler: `export default env => env.do === 'bury' ? { bury: 'never' } : -2`,
    })
    await daemon.waitFor(/alarms are not delivered: .*secret: .* got mode 644; run chmod 600/)
    chmodSync(secretFile, 0o600)
    for (const count of [1, 2]) {
      drop(spool, undefined, packet({ do: 'bury' }))
      const { path, body, signature, alarms } = await until(
        'the message arrives',
        () => hook.received[count - 1],
      )
      assert.equal(path, `/${TOKEN}`)
      assert.equal(signature, `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`)
      const [{ at: _, ...alarm } = {}, ...others] = alarms
      const text = 'a task became a dead letter'
      assert.deepEqual([alarm, others], [{ kind: 'buried', state: 'happened', spool, text, count: 1 }, []])
    }
    await daemon.waitFor(`alarm: buried: [spooler ${spool}] a task became a dead letter`)
    const printed = await Promise.all(
      ['check', 'config'].map(command => spoold([command, daemon.iniFile], { cwd: daemon.directory })),
    )
    const shown = [
      daemon.output,
      JSON.stringify(printed),
      ...[daemon.pid, ...childrenOf(daemon.pid)].flatMap(pid =>
        ['cmdline', 'environ'].map(file => readFileSync(`/proc/${pid}/${file}`, 'latin1')),
      ),
    ].join('\n')
    assert.ok(shown.includes(secretFile), 'the searched text includes the configuration')
    for (const hidden of [SECRET, TOKEN]) assert.equal(shown.includes(hidden), false)
    assert.equal(hook.received.length, 2)
  })

  it('follows no redirect, logs the failure once, and delivers the alarm later', async () => {
    const hook = await receiver((response, number) =>
      number <= 2 ? response.writeHead(307, { location: '/elsewhere' }).end('x') : taken(response),
    )
    const spool = spoolDirectory()
    const handler = `export default () => ({ bury: 'never' })`
    const daemon = await startDaemon({ spool, ini: { 'spooler-alarm': `url=${hook.url}/hook` }, handler })
    drop(spool, undefined, packet({ a: '1' }))
    await until('the third attempt', () => hook.received.length === 3)
    assert.deepEqual(
      hook.received.map(({ path, alarms }) => [path, alarms[0]?.count]),
      Array(3).fill(['/hook', 1]),
    )
    assert.match(daemon.output, /127\.0\.0\.1:\d+ answered with status 307; redirects are not followed/)
    assert.equal(troubles(daemon.output), 1)
  })

  it('delays no task while the receiver hangs, and then posts the current state', async () => {
    let hanging: ServerResponse | undefined
    const hook = await receiver((response, number) => {
      if (number === 1) hanging = response
      else taken(response)
    })
    const spool = spoolDirectory()
    const gate = join(dirname(spool), 'gate')
    const handler = `import { existsSync } from 'node:fs'
      export default async (env, task) => {
        while (!existsSync(${JSON.stringify(gate)})) await new Promise(resolve => setTimeout(resolve, 20))
        JOURNAL(task.name)
        return -2
      }`
    const daemon = await startDaemon({
      spool,
      handler,
      ini: { 'spooler-alarm': `url=${hook.url},max-due=2` },
    })
    for (let i = 0; i < 5; i++) drop(spool, undefined, packet({ a: String(i) }))
    await until('the alarm is being posted', () => hanging)
    await daemon.waitFor(/alarm: long: .* [34] due tasks; the limit is 2/)
    writeFileSync(gate, '')
    await until('all tasks have run', () => daemon.journal().length === 5)
    await daemon.waitFor(/alarm cleared: long: .* 0 due tasks/)
    assert.equal(hook.received.length, 1)
    hanging?.destroy()
    const { alarms, replaced } = await until('the next message', () => hook.received[1])
    assert.deepEqual([alarms.map(({ kind, state }) => [kind, state]), replaced], [[['long', 'cleared']], 1])
    assert.equal(troubles(daemon.output), 1)
  })

  it('raises an alarm when workers crash again and again', async () => {
    const spool = spoolDirectory()
    const broken = join(dirname(spool), 'broken')
    const handler = `import { existsSync } from 'node:fs'
      if (existsSync(${JSON.stringify(broken)})) process.kill(process.pid, 'SIGKILL')
      export default () => process.kill(process.pid, 'SIGKILL')`
    const ini = { 'spooler-alarm': 'max-due=1000', 'spooler-max-crashes': 1 }
    const daemon = await startDaemon({ spool, handler, ini })
    writeFileSync(broken, '')
    drop(spool, undefined, packet({ a: '1' }))
    await daemon.waitFor(/alarm: crashing: .* 1 of 1 worker process to be started again later/)
    assert.ok(existsSync(broken))
  })

  it('neither repeats nor forgets a raised alarm when a reload or a kill replaces the exporter', async () => {
    const hook = await receiver(taken)
    const spool = spoolDirectory()
    const alarm = `url=${hook.url},max-due=2`
    const daemon = await startDaemon({ spool, ini: { 'spooler-alarm': alarm } })
    await pauseSpool(spool, { pair: null, sinceMs: Date.now(), untilMs: null })
    await daemon.waitFor('] paused: all tasks')
    for (let i = 0; i < 5; i++) drop(spool, undefined, packet({ a: String(i) }))
    await until('the alarm is raised', () => hook.received.length === 1)
    await reload(daemon, { 'spooler-alarm': [alarm, 'max-due=1'] })
    await daemon.waitFor(/alarm: long: .* 5 due tasks; the limit is 1$/m)
    const second = exporterOf(daemon) ?? assert.fail('no exporter')
    process.kill(second, 'SIGKILL')
    await until('another exporter runs', () => ![second, undefined].includes(exporterOf(daemon)))
    await resumeSpool(spool, null)
    await until('the alarm is cleared', () => statesOf(hook.received).includes('long cleared'))
    assert.deepEqual(statesOf(hook.received), ['long raised', 'long cleared'])
  })

  it('delivers undelivered alarms after a reload, and clears an alarm that no longer has a limit', async () => {
    let isAway = true
    const hook = await receiver(response => (isAway ? response.destroy() : taken(response)))
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: `export default () => ({ bury: 'never' })`,
      ini: { 'spooler-alarm': `url=${hook.url},max-due=2` },
    })
    drop(spool, undefined, packet({ a: '1' }))
    await daemon.waitFor('alarms are not delivered')
    await pauseSpool(spool, { pair: null, sinceMs: Date.now(), untilMs: null })
    await daemon.waitFor('] paused: all tasks')
    for (let i = 0; i < 5; i++) drop(spool, undefined, packet({ a: String(i) }))
    await daemon.waitFor('alarm: long: ')
    await reload(daemon, { 'spooler-alarm': `url=${hook.url}` })
    await daemon.waitFor(/alarm cleared: long: .* it has no limit any more$/m)
    isAway = false
    const before = hook.received.length
    const { alarms, replaced } = await until('the alarms are delivered', () => hook.received[before])
    assert.deepEqual(
      [alarms.map(({ kind, state, count }) => [kind, state, count]), replaced],
      [
        [
          ['buried', 'happened', 1],
          ['long', 'cleared', undefined],
        ],
        1,
      ],
    )
  })

  it('refuses secrets in the ini, plain HTTP to other machines and other wrong values, and shows no secret', async () => {
    for (const [value, expected] of [
      [`url=https://hooks.example/${TOKEN},secret=${SECRET}`, 'expected secret=@FILE with an absolute path'],
      [`url=http://hooks.example/${TOKEN}`, 'would travel to hooks.example over plain HTTP'],
      [`url=https://me:${SECRET}@hooks.example/`, 'expected a URL without user and password'],
      [`url=ftp://hooks.example/${TOKEN}`, 'expected url=https://'],
      ['max-due=many', 'max-due: expected a number such as 1000, got "many"'],
    ] as const) {
      const daemon = await startDaemon({
        spool: spoolDirectory(),
        ini: { 'spooler-alarm': value },
        isUnready: true,
      })
      assert.equal(await daemon.code(), 1)
      assert.match(daemon.output, /app\.ini:\d+: error: spooler-alarm: /)
      assert.ok(daemon.output.includes(expected), daemon.output)
      for (const hidden of [SECRET, TOKEN]) assert.equal(daemon.output.includes(hidden), false)
    }
  })
})
