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

describe('the TypeScript in the docs', () => {
  for (const page of allPages()) {
    const blocks = page.blocks.filter(({ language }) => language === 'ts')
    if (blocks.length === 0) continue
    it(`${page.name} compiles with the types of the package`, async () => {
      const directory = workspace()
      const files = blocks.map((_, i) => `block-${i}.ts`)
      for (const [i, { text }] of blocks.entries()) writeFileSync(join(directory, `block-${i}.ts`), text)
      writeFileSync(join(directory, 'package.json'), '{"type":"module"}')
      writeFileSync(
        join(directory, 'tsconfig.json'),
        JSON.stringify({ compilerOptions: COMPILER_OPTIONS, files }),
      )
      const tsc = new TestProcess(process.execPath, [TSC, '-p', '.'], { cwd: directory })
      assert.equal(await tsc.code(120_000), 0, tsc.output)
    })
  }
})
