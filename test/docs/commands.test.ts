import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { allPages, type Page } from '../helpers/markdown.js'
import { TestProcess } from '../helpers/process.js'
import { BIN, workspace } from '../helpers/workspace.js'

const SHELL = new Set(['sh', 'bash', 'shell', 'console'])

describe('the commands in the docs', () => {
  for (const page of allPages()) {
    const shell = page.blocks.filter(({ language }) => SHELL.has(language))
    if (shell.length === 0) continue

    it(`${page.name}: every block with a command says whether it can run by itself`, () => {
      const unmarked = shell.filter(({ marks }) => !marks.includes('run') && !marks.includes('attended'))
      assert.deepEqual(
        unmarked.map(({ text }) => text),
        [],
      )
    })

    const runnable = shell.filter(({ marks }) => marks.includes('run')).map(({ text }) => text)
    if (runnable.length > 0)
      it(`${page.name}: what can run by itself does`, async () => {
        const output = await runAll(page, runnable)
        if (page.name === 'README.md') assert.match(output, /a mail to joe/)
      })
  }
})

/** One block after the other in an empty directory, in which the page's `file=` blocks are, with `spoold` on the PATH. */
async function runAll(page: Page, scripts: readonly string[]): Promise<string> {
  const directory = workspace()
  const bin = join(directory, '.bin')
  mkdirSync(bin)
  symlinkSync(BIN, join(bin, 'spoold'))
  for (const { marks, text } of page.blocks) {
    const name = /^file=(.*)$/.exec(marks.join(' '))?.[1]
    if (name !== undefined && !name.startsWith('/')) writeFileSync(join(directory, name), text)
  }
  const shell = new TestProcess('sh', ['-eux', '-c', scripts.join('\n')], {
    cwd: directory,
    env: { PATH: `${bin}:${process.env.PATH}` },
  })
  assert.equal(await shell.code(120_000), 0, shell.output)
  return shell.output
}
