import { readFileSync, writeFileSync } from 'node:fs'
import { optionsPage } from './options-page.js'

/** `npm run docs` writes the generated pages; with `--check` it only says whether they are current. */
const PAGES = [{ file: new URL('../../docs/options.md', import.meta.url), text: optionsPage() }]

const isCheck = process.argv.includes('--check')
for (const { file, text } of PAGES)
  if (!isCheck) writeFileSync(file, text)
  else if (readFileSync(file, 'utf8') !== text) {
    console.error(`${file.pathname} is not current; run "npm run docs"`)
    process.exitCode = 1
  }
