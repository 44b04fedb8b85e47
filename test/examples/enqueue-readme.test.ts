import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { parseVars, toDictionary, type Vars } from '#src/formats/protocol/vars.js'
import { leftIn } from '../helpers/files.js'
import { Page } from '../helpers/markdown.js'
import { skipUnless } from '../helpers/requires.js'
import { ROOT, workspace } from '../helpers/workspace.js'
import { prepare, WRITERS } from './enqueue-writers.js'

/** The names under which the page's programs can be compiled and run. */
const MAIN: Readonly<Record<string, string>> = {
  java: 'Example.java',
  csharp: 'Example.cs',
  rust: 'main.rs',
  go: 'main.go',
  c: 'main.c',
}

describe('spool-examples/enqueue/README.md', () => {
  const page = new Page('spool-examples/enqueue/README.md')

  for (const writer of WRITERS)
    it(`has a program in ${writer.language} that stores the task it shows`, {
      skip: skipUnless(writer.needs),
    }, () => {
      const block = page.blocks.find(({ language }) => language === writer.folder)
      assert.ok(block, `it has no block in ${writer.folder}`)
      const directory = workspace()
      mkdirSync(join(directory, 'spool'))
      const [command, ...args] = prepare(writer, directory, MAIN[writer.folder] ?? 'example', block.text)
      const began = Math.floor(Date.now() / 1000)
      execFileSync(command, args, { cwd: directory, timeout: 60_000 })
      const spool = join(directory, 'spool')
      assert.deepEqual(readdirSync(spool), ['5'])
      const [name = '', ...others] = leftIn(spool)
      assert.deepEqual(others, [])
      const mtime = statSync(join(spool, name)).mtimeMs / 1000
      assert.ok(mtime >= began + 60 && mtime <= Date.now() / 1000 + 61, `${mtime}`)
      const text = readFileSync(join(spool, name), 'latin1')
      const { at, ...rest } = toDictionary(blockOf(text))
      assert.deepEqual({ ...rest }, { to: 'joe', priority: '5' })
      assert.equal(Math.floor(Number(at)), mtime)
      assert.ok(text.endsWith('5hello'), text)
    })

  it('links to every file of every language, and no language lacks a test', () => {
    const examples = join(ROOT, 'spool-examples/enqueue')
    const files = readdirSync(examples, { recursive: true, encoding: 'utf8' }).filter(name =>
      /\w\/\w/.test(name),
    )
    assert.deepEqual(
      files.filter(name => !page.links.includes(name)),
      [],
    )
    assert.deepEqual(
      WRITERS.map(({ folder }) => folder).sort(),
      readdirSync(examples)
        .filter(name => statSync(join(examples, name)).isDirectory())
        .sort(),
    )
  })
})

function blockOf(text: string): Vars {
  const vars = parseVars(text, 4, 4 + Buffer.from(text, 'latin1').readUInt16LE(1))
  assert.ok('cuts' in vars)
  return vars
}
