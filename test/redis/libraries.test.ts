import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { writeIni } from '../helpers/daemon.js'
import { TestProcess } from '../helpers/process.js'
import { ROOT, workspace } from '../helpers/workspace.js'

const LIBRARIES = ['bullmq', 'ioredis'] as const

/** Installs the package as npm does, without its optional peers, and returns the path of its program. */
function installedIn(modules: string): string {
  const home = join(modules, 'spoold')
  for (const part of ['bin', 'dist', 'package.json'])
    cpSync(join(ROOT, part), join(home, part), { recursive: true })
  const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  for (const name of Object.keys(dependencies)) link(name, join(modules, name))
  return join(home, 'bin/spoold.js')
}

function link(name: string, path: string): void {
  mkdirSync(dirname(path), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules', name), path)
}

async function outputOf(bin: string, ...args: string[]): Promise<string> {
  const refused = new TestProcess(process.execPath, [bin, ...args])
  assert.equal(await refused.code(), 1)
  return refused.output
}

const enqueue = (bin: string) => outputOf(bin, 'enqueue', '--spooler', 'redis://127.0.0.1/0/mail', 'to=joe')

describe('without a bullmq and an ioredis that fit', () => {
  it('enqueue and doctor print the npm command that installs them beside spoold, and a directory works', async () => {
    const prefix = workspace()
    const bin = installedIn(join(prefix, 'lib/node_modules'))
    execFileSync(process.execPath, [bin, 'enqueue', '--spooler', join(workspace(), 'spool'), 'to=joe'])
    const refusal = await enqueue(bin)
    const command = `npm install -g --prefix ${prefix} bullmq@6 ioredis@5`
    assert.ok(refusal.includes('[LIBRARY_MISSING]') && refusal.includes(`: ${command}\n`), refusal)
    const ini = join(workspace(), 'app.ini')
    writeIni(ini, { spooler: 'redis://127.0.0.1/0/mail' })
    const examined = await outputOf(bin, 'doctor', ini)
    assert.ok(examined.includes(`to fix it: ${command}\n`), examined)
  })

  it('enqueue in an application prints the npm command that installs them there', async () => {
    const app = workspace()
    writeFileSync(join(app, 'package.json'), '{}')
    const refusal = await enqueue(installedIn(join(app, 'node_modules')))
    assert.ok(refusal.includes(`: npm install --prefix ${app} bullmq@6 ioredis@5\n`), refusal)
  })

  for (const [name, version] of [
    ['bullmq', '5.81.5'],
    ['bullmq', '6.6.9'],
    ['ioredis', '6.0.0'],
  ] as const)
    it(`enqueue refuses ${name} ${version}, whose commands differ`, async () => {
      const modules = join(workspace(), 'node_modules')
      const bin = installedIn(modules)
      for (const other of LIBRARIES) if (other !== name) link(other, join(modules, other))
      mkdirSync(join(modules, name))
      writeFileSync(join(modules, name, 'package.json'), JSON.stringify({ name, version, main: 'index.js' }))
      writeFileSync(join(modules, name, 'index.js'), '')
      assert.match(
        await enqueue(bin),
        new RegExp(`\\[LIBRARY_MISSING\\] .*${name} is ${version.replaceAll('.', '\\.')}, and .* is needed`),
      )
    })
})
