import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { TestProcess } from '../helpers/process.js'
import { FIXTURES, ROOT, workspace } from '../helpers/workspace.js'

const SAMPLES = join(FIXTURES, 'named/typescript')
const OPTIONS = {
  ...{ strict: true, module: 'nodenext', target: 'es2023', rootDir: SAMPLES, outDir: 'out' },
  ...{ types: ['node'], typeRoots: [join(ROOT, 'node_modules/@types')] },
  paths: { spoold: [join(ROOT, 'dist/types/index.d.ts')] },
}

/** Starts the API of the sample, which answers once it has been asked `together` times. @returns its URL */
async function pokemonApi(together: number): Promise<string> {
  let asked = 0
  const waiting: Array<() => void> = []
  const server = createServer((request, response) => {
    const name = `pokemon-${request.url?.split('/').at(-1)}`
    waiting.push(() => response.end(JSON.stringify({ name })))
    if (++asked >= together) for (const answer of waiting.splice(0)) answer()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  after(() => {
    server.close()
    server.closeAllConnections()
  })
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
}

describe('the samples of Spinach’s manual, in TypeScript', () => {
  const directory = workspace()
  const run = (name: string, env: NodeJS.ProcessEnv = {}) =>
    new TestProcess(process.execPath, [`out/${name}.js`], { cwd: directory, env })

  before(async () => {
    mkdirSync(join(directory, 'node_modules'))
    symlinkSync(ROOT, join(directory, 'node_modules/spoold'))
    writeFileSync(join(directory, 'package.json'), '{"type":"module"}')
    const files = readdirSync(SAMPLES).map(file => join(SAMPLES, file))
    writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify({ compilerOptions: OPTIONS, files }))
    const tsc = new TestProcess(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc')], {
      cwd: directory,
    })
    assert.equal(await tsc.code(120_000), 0, tsc.output)
  })

  it('quickstart: runs a task scheduled by itself and by its name, until ^C', async () => {
    const program = run('quickstart')
    await program.waitFor(/Starting workers, \^C to quit/)
    await program.waitFor(/Computed 5 \+ 3 = 8\n/)
    await program.waitFor(/Computed 6 \+ 4 = 10\n/)
    program.child.kill('SIGINT')
    assert.equal(await program.code(), 0)
  })

  it('queues: the workers of one queue take no task of another', async () => {
    const program = run('queues')
    assert.equal(await program.code(60_000), 0)
    assert.equal(program.output, 'fast\n')
  })

  it('batch: runs 150 tasks of a batch at the same time', async () => {
    const program = run('batch', { POKEMON_API: await pokemonApi(150) })
    assert.equal(await program.code(60_000), 0, program.output)
    assert.equal(program.output.match(/^Pokemon #(\d+) is pokemon-\1$/gm)?.length, 150)
  })

  it('coroutines: a hundred tasks that take a second each are done within 30 seconds', async () => {
    const program = run('coroutines')
    assert.equal(await program.code(60_000), 0)
    assert.equal(program.output.match(/^Computed (\d+) \+ 4 = \d+$/gm)?.length, 100)
    assert.ok(Number(/after (\d+) ms/.exec(program.output)?.[1]) < 30_000, program.output.slice(-100))
  })

  it('signals: a listener hears one namespace, all applications, or its own application', async () => {
    const program = run('signals')
    assert.equal(await program.code(60_000), 0, program.output)
    const lines = program.output.trim().split('\n')
    assert.deepEqual(
      [lines.slice(0, 2).sort(), ...lines.slice(2)], // the event may be heard during the run
      [
        ['Task work started on Foo', 'working for foo'],
        ...[
          'foo: work has finished',
          'working for bar',
          'work has failed: too hard',
          'bar: work has finished',
        ],
      ],
    )
  })

  it('coffee: a daemon runs make_coffee again and again', async () => {
    const spool = join(directory, 'spool')
    mkdirSync(spool)
    const daemon = await startDaemon({
      spool,
      isForeign: true,
      ini: { 'spooler-import': join(directory, 'out/coffee.js') },
    })
    await daemon.waitFor(/(Making coffee\.\.\.[\s\S]*){3}/)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.match(daemon.output, /done with task \S+ \(make_coffee\)/)
  })

  it('retries: runs again after a 429 at the time asked for, after an error up to the limit, and not after an abort', async () => {
    const program = run('retries')
    await program.waitFor(/foo got one two at \d+\n/)
    await program.waitFor(/(index\n[\s\S]*){11}/)
    program.child.kill('SIGTERM')
    assert.equal(await program.code(), 0)
    const [, asked, got] = /asked at (\d+)[\s\S]*foo got one two at (\d+)/.exec(program.output) ?? []
    assert.ok(Number(got) - Number(asked) >= 2000, program.output)
    assert.deepEqual(
      ['index', 'once', 'abort'].map(name => program.output.split('\n').filter(line => line === name).length),
      [11, 1, 1],
    )
  })
})
