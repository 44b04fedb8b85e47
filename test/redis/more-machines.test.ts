import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { enqueue } from '#src/engines/client/spool.js'
import { Page } from '../helpers/markdown.js'
import { TestProcess } from '../helpers/process.js'
import { PYTHON } from '../helpers/python.js'
import { freePort, startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { BIN, ROOT, workspace } from '../helpers/workspace.js'

const page = new Page('docs/more-machines.md')
const EXAMPLE = join(ROOT, 'spool-examples/compose')

describe('from one machine to three, and back', { skip: skipUnless('redis-server') }, () => {
  it('loses no task and runs none twice with the commands of docs/more-machines.md', async () => {
    const directory = workspace()
    const bin = join(directory, '.bin')
    mkdirSync(bin)
    symlinkSync(BIN, join(bin, 'spoold'))
    for (const { marks, text } of page.blocks)
      for (const [, name] of marks.map(mark => /^file=(.*)$/.exec(mark) ?? []))
        if (name !== undefined) writeFileSync(join(directory, name), text)
    const commands = page.blocks.filter(({ marks }) => marks.includes('walk')).map(({ text }) => text)
    const script = commands.join('').replaceAll('6390', String(freePort())) // port 6390 may be taken
    // the processes that the script leaves in the background end with its group
    const shell = new TestProcess('sh', ['-eu', '-c', script], {
      cwd: directory,
      env: { PATH: `${bin}:${process.env.PATH}` },
      isGroup: true,
    })
    await shell.waitFor(/^ *300 1$/m, 120_000)
    const lines = readFileSync(join(directory, 'DONE'), 'utf8').trim().split('\n')
    const numbers = lines.map(line => Number(line.split(' ')[0])).sort((a, b) => a - b)
    assert.deepEqual(
      numbers,
      Array.from({ length: 300 }, (_, i) => i + 1),
    )
    assert.match(shell.output, /^0$/m, 'no task is left on Redis')
    process.kill(-shell.pid, 'SIGKILL')
  })
})

describe('spool-examples/compose', () => {
  const compose = join(EXAMPLE, 'compose.yaml')
  const isYaml = () => {
    try {
      execFileSync(PYTHON, ['-c', 'import yaml'], { stdio: 'ignore' })
      return false
    } catch {
      return 'needs python3 with yaml'
    }
  }

  it('has a compose.yaml whose services, volumes and files exist', { skip: isYaml() }, () => {
    const program = 'import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))'
    const { services, volumes } = JSON.parse(
      execFileSync(PYTHON, ['-c', program, compose], { encoding: 'utf8' }),
    ) as Record<'services' | 'volumes', Record<string, Record<string, unknown>>>
    assert.deepEqual(Object.keys(services), ['redis', 'tasks', 'enqueue'])
    for (const service of Object.values(services)) {
      for (const other of Object.keys(service.depends_on ?? {}))
        assert.ok(other === '0' || other in services, other)
      for (const mount of (service.volumes as string[] | undefined) ?? [])
        assert.ok((mount.split(':')[0] ?? '') in volumes, mount)
      const build = service.build as { context: string; dockerfile: string } | undefined
      if (build !== undefined) assert.ok(existsSync(join(EXAMPLE, build.context, build.dockerfile)))
    }
    assert.deepEqual(services.tasks?.deploy, { replicas: 3 })
    const address = (services.enqueue?.entrypoint as string[] | undefined)?.at(-1)
    assert.ok(readFileSync(join(EXAMPLE, 'app.ini'), 'utf8').includes(`spooler = ${address}\n`))
    const copied = /^COPY (spool-examples.*) \.\/$/m.exec(readFileSync(join(EXAMPLE, 'Dockerfile'), 'utf8'))
    for (const file of (copied?.[1] ?? 'none').split(' ')) assert.ok(existsSync(join(ROOT, file)), file)
  })

  describe('on a Redis', { skip: skipUnless('redis-server') }, () => {
    let redis: TestRedis
    if (skipUnless('redis-server') === false) redis = startRedis()
    before(() => redis.ready())

    it('has a configuration and a handler that run', async () => {
      const home = workspace()
      cpSync(EXAMPLE, home, { recursive: true })
      const ini = join(home, 'app.ini')
      const spooler = redis.address('mail')
      writeFileSync(ini, readFileSync(ini, 'utf8').replace('redis://redis:6379/0/mail', spooler))
      const daemon = new TestProcess(process.execPath, [BIN, ini])
      await daemon.waitFor(/is running/)
      await enqueue({ to: 'joe' }, { spooler })
      await daemon.waitFor(/"msg":"[^"]*a mail to joe"/)
      daemon.child.kill('SIGTERM')
      assert.equal(await daemon.code(), 0)
    })
  })
})
