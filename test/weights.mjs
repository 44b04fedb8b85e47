// What each test file takes, as measured: test/weights.json, which `node test/run.mjs --all --weigh` writes anew.
import { readFileSync, writeFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export const BUILT = fileURLToPath(new URL('../build/test', import.meta.url))
const FILE = new URL('weights.json', import.meta.url)
/** A file that was never measured. */
const UNKNOWN = { cpu: 2, wall: 4 }

/** Returns the name of a built test file, such as e2e/life. */
export const nameOf = path => relative(BUILT, path).replace(/\.test\.js$/, '')

/** Returns a function that gives `{ cpu, wall }`, in seconds, for the name of a test file. */
export function readWeights() {
  const known = new Map(Object.entries(JSON.parse(readFileSync(FILE, 'utf8'))))
  return name => {
    const [cpu, wall] = known.get(name) ?? [UNKNOWN.cpu, UNKNOWN.wall]
    return { cpu, wall: Math.max(wall, 0.1) }
  }
}

/** Keeps what was measured now, and what was measured before of other files that are still there. */
export function writeWeights(measured, existing) {
  const before = Object.entries(JSON.parse(readFileSync(FILE, 'utf8'))).filter(([name]) => existing.has(name))
  const all = [...new Map([...before, ...measured])].sort(([a], [b]) => (a < b ? -1 : 1))
  const lines = all.map(
    ([name, [cpu, wall]]) => `  ${JSON.stringify(name)}: [${cpu.toFixed(1)}, ${wall.toFixed(1)}]`,
  )
  writeFileSync(FILE, `{\n${lines.join(',\n')}\n}\n`)
}
