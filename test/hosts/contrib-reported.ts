import assert from 'node:assert/strict'
import { cpSync, mkdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { after } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { virtualenv } from '../helpers/python.js'
import { ROOT, workspace } from '../helpers/workspace.js'
import { pythonEnv } from './named-host.js'

const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/

interface Request {
  readonly path: string
  readonly body: Buffer
}

/** Starts a server that takes what is reported, until the test has ended. @returns its `host:port`, and the requests */
export async function receiver(): Promise<{ place: string; requests: Request[] }> {
  const requests: Request[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    requests.push({ path: request.url ?? '', body: Buffer.concat(chunks) })
    response.end('{}')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  after(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  assert.ok(address !== null && typeof address === 'object')
  return { place: `127.0.0.1:${address.port}`, requests }
}

/**
 * Runs an example in a daemon that reports to a server of the test. `besides` has spool files by name, which another program
 * may have stored. @returns the exit code, the output, the id of the example's task, and each request: path and body
 */
export async function reported(
  name: string,
  venv: string,
  variables: (url: string) => NodeJS.ProcessEnv,
  besides: Readonly<Record<string, Record<string, string>>> = {},
): Promise<{ code: number | null; output: string; id: string; requests: readonly Request[] }> {
  const { place, requests } = await receiver()
  const directory = join(workspace(), name)
  cpSync(join(ROOT, 'spool-examples', name), directory, { recursive: true })
  mkdirSync(join(directory, 'spool'), { recursive: true })
  const python = join(virtualenv(venv), 'bin/python')
  const env = { ...pythonEnv('spool'), ...variables(place) }
  const program = new TestProcess(python, ['shop.py'], { cwd: directory, env })
  assert.equal(await program.code(), 0, program.output)
  const [task = ''] = leftIn(join(directory, 'spool'))
  const [id] = UUID.exec(readFileSync(join(directory, 'spool', task), 'latin1')) ?? []
  assert.ok(id, `no id in ${task}`)
  for (const [file, vars] of Object.entries(besides)) drop(join(directory, 'spool'), file, packet(vars))
  requests.length = 0
  const ran = await spoold(['--drain', join(directory, 'app.ini'), '--python', python], { env })
  const manual = readFileSync(join(ROOT, 'docs/mail-errors-logs.md'), 'utf8')
  assert.ok(manual.includes(readFileSync(join(directory, 'shop.py'), 'utf8')), 'the manual has the same')
  return { code: ran.code, output: ran.stdout + ran.stderr, id, requests }
}
