import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { closeSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, it } from 'node:test'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { ROOT, workspace } from '../helpers/workspace.js'

const HOSTS = join(ROOT, 'dist/hosts')
const PAGE_BYTES = 4096

describe('an interpreter whose worker has ended before the interpreter is ready', () => {
  for (const [language, requirement, command, file] of [
    ['Python', 'python3', PYTHON, 'python/main.py'],
    ['Perl', 'perl', 'perl', 'perl/main.pl'],
    ['Ruby', 'ruby', 'ruby', 'ruby/main.rb'],
  ] as const)
    it(`ends with nothing on stderr: ${language}`, { skip: skipUnless(requirement) }, async () => {
      const page = join(workspace(), 'page')
      writeFileSync(page, Buffer.alloc(PAGE_BYTES))
      const fd = openSync(page, 'r+')
      const child = spawn(command, [join(HOSTS, file)], {
        stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe', fd, 'pipe'],
      })
      closeSync(fd)
      for (const end of child.stdio.slice(3)) end?.destroy()
      assert.ok(child.stderr)
      assert.equal(await text(child.stderr), '')
    })
})
