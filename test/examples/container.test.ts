import assert from 'node:assert/strict'
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { TestProcess } from '../helpers/process.js'
import { BIN, ROOT, spoolDirectory, workspace } from '../helpers/workspace.js'

const EXAMPLE = join(ROOT, 'spool-examples/container')

describe('the container example', () => {
  const instructions = readFileSync(join(EXAMPLE, 'Dockerfile'), 'utf8')
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll('\\\n', ' ')
    .split('\n')
    .filter(Boolean)
  const of = (name: string) =>
    instructions.filter(line => line.startsWith(`${name} `)).map(line => line.slice(name.length).trim())

  it('runs its task, and its health check passes while the daemon runs and fails after it has stopped', async () => {
    const home = workspace()
    const spool = spoolDirectory()
    cpSync(EXAMPLE, home, { recursive: true })
    const ini = join(home, 'app.ini')
    writeFileSync(ini, readFileSync(ini, 'utf8').replace('/var/spool/app', spool))
    const daemon = new TestProcess(process.execPath, [BIN, ini])
    await daemon.waitFor(/is running/)
    assert.equal((await spoold(['enqueue', '--spooler', spool, 'to=joe'])).code, 0)
    await daemon.waitFor(/"msg":"[^"]*a mail to joe"/)
    const [, check = ''] = (of('HEALTHCHECK')[0] ?? '').split(' CMD ')
    const [, ...args] = JSON.parse(check.replace('/var/spool/app', spool)) as string[]
    assert.equal((await spoold(args)).code, 0)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.notEqual((await spoold(args)).code, 0)
  })

  it('has a Dockerfile of two stages that runs as uid 1000 and starts its commands without a shell', () => {
    assert.equal(of('FROM').length, 2)
    assert.match(of('FROM')[0] ?? '', / AS package$/)
    assert.deepEqual(of('USER'), ['1000:1000'])
    assert.ok(instructions.indexOf('USER 1000:1000') > instructions.lastIndexOf(`FROM ${of('FROM')[1]}`))
    assert.deepEqual(JSON.parse(of('CMD')[0] ?? ''), ['spoold', 'app.ini'])
    const [, check = ''] = (of('HEALTHCHECK')[0] ?? '').split(' CMD ')
    assert.deepEqual(JSON.parse(check).slice(0, 2), ['spoold', 'status'])
    const copied = of('COPY')
      .filter(line => !line.startsWith('--from'))
      .flatMap(line => line.split(/ +/).slice(0, -1))
    assert.ok(copied.length >= 3)
    for (const name of copied) assert.ok(existsSync(join(ROOT, name)), name)
  })

  it('keeps the spool on the declared volume, and allows a stop 30 s more than the mercy', () => {
    const ini = readFileSync(join(EXAMPLE, 'app.ini'), 'utf8')
    const compose = readFileSync(join(EXAMPLE, 'compose.yaml'), 'utf8')
    const [volume = ''] = of('VOLUME')
    assert.match(ini, new RegExp(`^spooler = ${volume}$`, 'm'))
    assert.match(compose, new RegExp(`^ +- spool:${volume}$`, 'm'))
    const [, mercy] = /worker-reload-mercy = (\d+)/.exec(ini) ?? []
    const [, grace] = /stop_grace_period: (\d+)s/.exec(compose) ?? []
    assert.ok(Number(grace) >= Number(mercy) + 30, 'Docker waits longer than the mercy of running tasks')
  })
})
