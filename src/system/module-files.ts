import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** More modules than a handler is likely to have; the rest is ignored. */
const MAX_FILES = 50
const CHECK_MS = 10_000
const ENDINGS = ['', '.js', '.cjs', '.mjs', '/index.js']

interface ModuleFile {
  readonly file: string
  readonly text: string
}

/** A JavaScript file and the files that it imports by relative path, recursively. Unreadable files are left out. */
export function moduleFiles(entry: string): ModuleFile[] {
  const found: ModuleFile[] = []
  const seen = new Set<string>()
  const visit = (path: string): boolean => {
    if (seen.has(path) || found.length >= MAX_FILES) return true
    const text = readQuietly(path)
    if (text === undefined) return false
    seen.add(path)
    found.push({ file: path, text })
    for (const [, , name = ''] of text.matchAll(
      /(?:from|import|require)\s*\(?\s*(['"])(\.{1,2}\/[^'"\n]+)\1/g,
    ))
      ENDINGS.some(ending => visit(join(dirname(path), `${name}${ending}`)))
    return true
  }
  visit(entry)
  return found
}

/**
 * Parses TypeScript as Node does when it loads it; `--check` would take it for JavaScript. Node warns that this is an
 * experiment.
 */
const STRIP = `require('node:module').stripTypeScriptTypes(require('node:fs').readFileSync(process.argv[1], 'utf8'), { sourceUrl: process.argv[1] })`
/** Options of Node with which another loader may read TypeScript, and take more of it than Node does. */
const OTHER_READERS = /(^|\s)(-r|--(require|import|loader|experimental-))/

/**
 * Returns the first syntax error in a file or its relative imports: file and line, the source line with a mark under the
 * error, and the reason. Nothing is run. `import()` is not used, because its error does not say where.
 */
export function syntaxErrorIn(entry: string, nodeOptions = process.env.NODE_OPTIONS): string | undefined {
  for (const { file } of moduleFiles(entry)) {
    if (/\.([cm]?tsx|jsx|json|node)$/.test(file)) continue
    const isTypeScript = /\.[cm]?ts$/.test(file)
    if (isTypeScript && (!runsTypeScript() || OTHER_READERS.test(nodeOptions ?? ''))) continue
    const how = isTypeScript ? ['--no-warnings', '-e', STRIP] : ['--check']
    const { status, stderr } = spawnSync(process.execPath, [...how, file], {
      encoding: 'utf8',
      timeout: CHECK_MS,
    })
    if (status === 0 || !/^\w*SyntaxError/m.test(stderr)) continue
    const lines = stderr.split('\n')
    const last = lines.findIndex(line => /^\w*SyntaxError/.test(line))
    return lines
      .slice(0, last + 1)
      .join('\n')
      .replace(/^file:\/\//, '')
      .replace(/\n\s*\n/g, '\n')
      .trim()
  }
  return undefined
}

/** Why this Node cannot run a file, judged by the file's name alone. */
export function unsupportedEnding(file: string, nodeOptions = process.env.NODE_OPTIONS): string | undefined {
  if (!/\.[cm]?ts$/.test(file) || runsTypeScript() || OTHER_READERS.test(nodeOptions ?? '')) return undefined
  return `Node ${process.version} runs no TypeScript; Node 22.18 and later do`
}

function runsTypeScript(): boolean {
  return 'typescript' in process.features && process.features.typescript !== false
}

function readQuietly(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
