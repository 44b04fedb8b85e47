import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { allPages } from '../helpers/markdown.js'
import { TestProcess } from '../helpers/process.js'
import { ROOT, workspace } from '../helpers/workspace.js'

const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')
const COMPILER_OPTIONS = {
  strict: true,
  noEmit: true,
  module: 'nodenext',
  target: 'es2023',
  skipLibCheck: true,
  types: ['node'],
  typeRoots: [join(ROOT, 'node_modules/@types')],
  paths: { spoold: [join(ROOT, 'dist/types/index.d.ts')] },
}

/** @param texts of modules that import spoold */
async function compiles(texts: readonly string[]): Promise<void> {
  const directory = workspace()
  const files = texts.map((_, i) => `block-${i}.ts`)
  for (const [i, text] of texts.entries()) writeFileSync(join(directory, `block-${i}.ts`), text)
  writeFileSync(join(directory, 'package.json'), '{"type":"module"}')
  writeFileSync(
    join(directory, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: COMPILER_OPTIONS, files }),
  )
  const tsc = new TestProcess(process.execPath, [TSC, '-p', '.'], { cwd: directory })
  assert.equal(await tsc.code(120_000), 0, tsc.output)
}

describe('the types of the package', () => {
  it('take every way in which a handler answers', async () => {
    await compiles([
      `import { type Handler, RetryTask, SPOOL_IGNORE, SPOOL_OK, SPOOL_RETRY } from 'spoold'
export const constant: Handler = async () => SPOOL_OK
export const besideThrow: Handler = async env => {
  if (env.to === undefined) throw new RetryTask()
  return SPOOL_OK
}
export const several: Handler = env => (env.to === undefined ? SPOOL_IGNORE : SPOOL_RETRY)
export const objects: Handler = async env => (env.to === undefined ? { bury: 'no address' } : { retry: '5m' })
export const ofTask: Handler = (_env, task) => task.SPOOL_OK
async function elsewhere() {
  return SPOOL_OK
}
export const named: Handler = elsewhere
// @ts-expect-error a forgotten return
export const forgotten: Handler = async () => {}
`,
    ])
  })
})

describe('the TypeScript in the docs', () => {
  for (const page of allPages()) {
    const blocks = page.blocks.filter(({ language }) => language === 'ts')
    if (blocks.length === 0) continue
    it(`${page.name} compiles with the types of the package`, async () => {
      await compiles(blocks.map(({ text }) => text))
    })
  }
})
