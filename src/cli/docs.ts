import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../base/package-root.js'
import { optionsPage } from './options-page.js'

/** `npm run docs` writes the generated pages; with `--check` it only says whether they are current. */
const PAGES = [{ file: join(PACKAGE_ROOT, 'docs/options.md'), text: optionsPage() }]

const isCheck = process.argv.includes('--check')
for (const { file, text } of PAGES)
  if (!isCheck) writeFileSync(file, text)
  else if (readFileSync(file, 'utf8') !== text) {
    console.error(`${file} is not current; run "npm run docs"`)
    process.exitCode = 1
  }
