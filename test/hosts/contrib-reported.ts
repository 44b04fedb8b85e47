import assert from 'node:assert/strict'
import { cpSync, mkdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { spoold } from '../helpers/cli.js'
import { TestProcess } from '../helpers/process.js'
import { virtualenv } from '../helpers/python.js'
import { ROOT, workspace } from '../helpers/workspace.js'
import { pythonEnv } from './named-host.js'

/** Runs an example in a daemon, beside a server that takes what it reports. @returns its exit code, and each request: path and body */
export async function reported(
  name: string,
  venv: string,
  variables: (url: string) => NodeJS.ProcessEnv,
): Promise<{ code: number | null; output: string; requests: Array<{ path: string; body: Buffer }> }> {
  const requests: Array<{ path: string; body: Buffer }> = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    requests.push({ path: request.url ?? '', body: Buffer.concat(chunks) })
    response.end('{}')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  try {
    const address = server.address()
    assert.ok(address !== null && typeof address === 'object')
    const directory = join(workspace(), name)
    cpSync(join(ROOT, 'spool-examples', name), directory, { recursive: true })
    mkdirSync(join(directory, 'spool'), { recursive: true })
    const python = join(virtualenv(venv), 'bin/python')
    const env = { ...pythonEnv('spool'), ...variables(`127.0.0.1:${address.port}`) }
    const program = new TestProcess(python, ['shop.py'], { cwd: directory, env })
    assert.equal(await program.code(), 0, program.output)
    requests.length = 0
    const ran = await spoold(['--drain', join(directory, 'app.ini'), '--python', python], { env })
    const manual = readFileSync(join(ROOT, 'docs/mail-errors-logs.md'), 'utf8')
    assert.ok(manual.includes(readFileSync(join(directory, 'shop.py'), 'utf8')), 'the manual has the same')
    return { code: ran.code, output: ran.stdout + ran.stderr, requests }
  } finally {
    server.closeAllConnections()
    server.close()
  }
}
