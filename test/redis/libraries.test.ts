import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { TestProcess } from '../helpers/process.js'
import { ROOT, workspace } from '../helpers/workspace.js'

/** The package as npm installs it without its optional peers. */
function withoutLibraries(): string {
  const home = join(workspace(), 'spoold')
  for (const part of ['bin', 'dist', 'package.json'])
    cpSync(join(ROOT, part), join(home, part), { recursive: true })
  const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  for (const name of Object.keys(dependencies)) {
    mkdirSync(dirname(join(home, 'node_modules', name)), { recursive: true })
    symlinkSync(join(ROOT, 'node_modules', name), join(home, 'node_modules', name))
  }
  return home
}

describe('without bullmq and ioredis', () => {
  it('a spool on Redis is refused with the command that installs them, and a directory is not', async () => {
    const bin = join(withoutLibraries(), 'bin/spoold.js')
    const spool = join(workspace(), 'spool')
    execFileSync(process.execPath, [bin, 'enqueue', '--spooler', spool, 'to=joe'])
    const enqueue = ['enqueue', '--spooler', 'redis://127.0.0.1/0/mail', 'to=joe']
    const refused = new TestProcess(process.execPath, [bin, ...enqueue])
    assert.equal(await refused.code(), 1)
    assert.match(refused.output, /\[LIBRARY_MISSING\] .*npm install bullmq ioredis/)
  })
})
