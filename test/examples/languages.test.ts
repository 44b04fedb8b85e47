import assert from 'node:assert/strict'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { leftIn } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { BIN, ROOT } from '../helpers/workspace.js'

for (const language of ['perl', 'ruby'] as const)
  it(`the example in ${language} does what its README says`, { skip: skipUnless(language) }, async () => {
    const example = join(ROOT, 'spool-examples', language)
    const spool = join(example, 'spool')
    after(() => rmSync(spool, { recursive: true, force: true }))
    const daemon = new TestProcess(process.execPath, [BIN, join(example, 'app.ini')])
    await daemon.waitFor(`${language}: it is `)
    for (const words of enqueuedIn(join(example, 'README.md')))
      assert.equal((await spoold(['enqueue', '--spooler', spool, ...words])).code, 0)
    for (const whom of ['world', 'ann', 'bob']) await daemon.waitFor(`${language}: hello ${whom}\n`)
    await daemon.waitFor('no network yet')
    await daemon.waitFor(`${language}: fetched at the second attempt`)
    await until('all tasks are done', () => leftIn(spool).length === 0)
    daemon.child.kill('SIGINT')
    assert.equal(await daemon.code(), 0)
  })

/** The tasks that a README tells its reader to enqueue. */
function enqueuedIn(readme: string): string[][] {
  const lines = readFileSync(readme, 'utf8').matchAll(/^npx spoold enqueue --spooler \S+ (.*)$/gm)
  const tasks = [...lines].map(([, words = '']) => words.split(' '))
  assert.ok(tasks.length > 0)
  return tasks
}
