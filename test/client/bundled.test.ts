import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import { rolldown } from 'rolldown'
import { leftIn } from '../helpers/files.js'
import { ROOT, spoolDirectory, workspace } from '../helpers/workspace.js'

const run = promisify(execFile)

/** Bundles a program that stores a task in the spool that its argument names. @returns the bundle */
async function bundle(external: string[]): Promise<string> {
  const directory = workspace()
  mkdirSync(join(directory, 'node_modules'))
  symlinkSync(ROOT, join(directory, 'node_modules/spoold'))
  writeFileSync(
    join(directory, 'app.mjs'),
    `import { enqueue } from 'spoold'\nawait enqueue({ to: 'joe' }, { spooler: process.argv[2] })\n`,
  )
  const built = await rolldown({
    input: join(directory, 'app.mjs'),
    external,
    platform: 'node',
    cwd: directory,
  })
  const file = join(directory, 'bundle.mjs')
  await built.write({ file, format: 'esm' })
  await built.close()
  return file
}

describe('a program in a bundle', () => {
  it('stores tasks when spoold is beside the bundle', async () => {
    const spool = spoolDirectory()
    await run(process.execPath, [await bundle(['spoold']), spool])
    assert.equal(leftIn(spool).length, 1)
  })

  it('says what to do when spoold is part of the bundle', async () => {
    const spool = spoolDirectory()
    await assert.rejects(
      run(process.execPath, [await bundle([]), spool]),
      /spoold cannot be part of a bundle, .*esbuild --external:spoold/,
    )
    assert.equal(leftIn(spool).length, 0)
  })
})
