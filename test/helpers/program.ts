import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after } from 'node:test'
import { ROOT, workspace } from './workspace.js'

/** The path of the built package, as a JavaScript literal for the imports of a program. */
export const INDEX = JSON.stringify(join(ROOT, 'dist/index.js'))

/** Runs a program in a directory of its own. It is killed when the test ends. */
export function program(source: string) {
  const directory = workspace()
  writeFileSync(join(directory, 'main.mjs'), source)
  const child = spawn(process.execPath, ['main.mjs'], { cwd: directory, stdio: ['pipe', 'pipe', 'pipe'] })
  after(() => child.kill('SIGKILL'))
  const ended = Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)])
  return { child, ended: ended.then(([[code], stdout, stderr]) => ({ code, stdout, stderr })) }
}
