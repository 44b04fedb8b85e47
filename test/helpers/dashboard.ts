import { chmodSync, chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { dirname, join } from 'node:path'
import { makeToken } from '#src/admin/operate/dashboard-tokens.js'
import type { Role } from '#src/base/task/roles.js'
import { USER } from './canaries.js'
import { type Daemon, type DaemonSetup, startDaemon } from './daemon.js'
import { drop, leftIn, packet, taskName } from './files.js'
import { childrenOf } from './process.js'
import { until } from './until.js'
import { spoolDirectory } from './workspace.js'

/** The dashboard never runs as root, so a test that runs as root starts the daemon as another user. */
const isRoot = process.geteuid?.() === 0
const AS_USER = isRoot ? { uid: USER, gid: USER } : {}

export interface Reply {
  readonly status: number
  readonly headers: NodeJS.Dict<string | string[]>
  readonly text: string
}

interface Sent {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly form?: Readonly<Record<string, string>>
}

/** Where a dashboard listens. */
export type Place = { readonly port: number } | { readonly socketPath: string }

export interface TestDashboard {
  readonly daemon: Daemon
  readonly spool: string
  /** The name of the spool in URLs. */
  readonly id: string
  readonly place: Place
  /** Returns a token for this role and right. It is of use only if the dashboard has tokens. */
  tokenOf(role: Role, mayReadPayload?: boolean): string
  /** Returns the pid of the dashboard; undefined while it does not run. */
  pid(): number | undefined
}

/** Gives a file to the user of the daemon. */
export function give(path: string | Buffer): void {
  if (isRoot) chownSync(path, USER, USER)
}

/** Drops a task that is due in a hundred years, so that it stays. @returns its name */
export function dropLater(spool: string, name = taskName()): string {
  give(drop(spool, name, packet({ to: 'joe' }), 4_000_000_000))
  return name
}

/** Stores tasks, and waits until they have run. */
export async function runs(spool: string, count: number): Promise<void> {
  const before = leftIn(spool).length
  for (let i = 0; i < count; i++) give(drop(spool))
  await until('the tasks have run', () => leftIn(spool).length <= before)
}

/** Returns the `csrf` value of the first form of a page. */
export function csrfIn(page: string): string {
  const [, csrf] = /name="csrf" value="([^"]+)"/.exec(page) ?? []
  if (csrf === undefined) throw new Error(`no form in ${page}`)
  return csrf
}

/** Starts a daemon with a dashboard, with a token for each role and right unless `hasTokens` is false. */
export async function startDashboard({
  hasTokens = true,
  ini = {},
  ...setup
}: Partial<DaemonSetup> & { hasTokens?: boolean } = {}): Promise<TestDashboard> {
  const spool = setup.spool ?? spoolDirectory()
  const home = dirname(spool)
  chmodSync(home, 0o755)
  give(spool)
  const rights = (['viewer', 'operator', 'admin'] as const).flatMap(role =>
    [false, true].map(mayReadPayload => ({ name: nameOf(role, mayReadPayload), role, mayReadPayload })),
  )
  const made = rights.map(right => ({ ...right, ...makeToken(right) }))
  const file = join(home, 'tokens')
  writeFileSync(file, made.map(({ line }) => line).join(''), { mode: 0o600 })
  give(file)
  mkdirSync(join(home, 'run'), { mode: 0o755 })
  give(join(home, 'run'))
  const daemon = await startDaemon({
    ...setup,
    spool,
    ini: {
      'spooler-dashboard': '127.0.0.1:0',
      ...(hasTokens ? { 'spooler-dashboard-tokens': file } : {}),
      ...AS_USER,
      ...ini,
    },
  })
  const place = await until('the dashboard is there', () => placeIn(daemon.output))
  return {
    daemon,
    spool,
    id: 'spool',
    place,
    tokenOf: (role, mayReadPayload = false) =>
      made.find(({ name }) => name === nameOf(role, mayReadPayload))?.token ?? '',
    pid: () => dashboardOf(daemon.pid),
  }
}

export function nameOf(role: Role, mayReadPayload: boolean): string {
  return mayReadPayload ? `${role}-with-payload` : role
}

function placeIn(output: string): Place | undefined {
  const [, address = ''] = /dashboard enabled on (\S+) /.exec(output) ?? []
  if (address.startsWith('/')) return { socketPath: address }
  const port = Number(address.split(':').at(-1))
  return port > 0 ? { port } : undefined
}

/** Returns the pid of a daemon's dashboard. */
export function dashboardOf(pid: number): number | undefined {
  return childrenOf(pid).find(child => {
    try {
      return readFileSync(`/proc/${child}/cmdline`, 'latin1').includes('dashboard.cjs')
    } catch {
      return false // it has ended
    }
  })
}

/** Sends a request on a connection of its own; a form by POST, as a browser does on a page of the dashboard itself. */
export function send(place: Place, path: string, { method, headers = {}, form }: Sent = {}): Promise<Reply> {
  const host = 'port' in place ? `127.0.0.1:${place.port}` : 'localhost'
  const body = form === undefined ? undefined : new URLSearchParams(form).toString()
  const posted =
    body === undefined
      ? {}
      : {
          origin: `http://${host}`,
          'content-type': 'application/x-www-form-urlencoded',
          'content-length': String(Buffer.byteLength(body)),
        }
  const target = 'port' in place ? { host: '127.0.0.1', port: place.port } : place
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        ...target,
        path,
        method: method ?? (body === undefined ? 'GET' : 'POST'),
        headers: { host, ...posted, ...headers },
        agent: false,
      },
      response => {
        let text = ''
        response.on('data', data => {
          text += data
        })
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text }),
        )
        response.on('error', reject)
      },
    )
    sent.on('error', reject)
    sent.end(body)
  })
}

/** A client that keeps its cookie, as a browser does. */
export class Browser {
  readonly #place: Place
  readonly #headers: Readonly<Record<string, string>>
  #cookie = ''

  /** @param headers what every request has besides, such as the headers of a proxy */
  constructor(place: Place, headers: Readonly<Record<string, string>> = {}) {
    this.#place = place
    this.#headers = headers
  }

  /** The value of the `Cookie` header that it sends. */
  get cookie(): string {
    return this.#cookie
  }

  async logIn(token: string): Promise<Reply> {
    return this.#keep(await send(this.#place, '/login', { form: { token }, headers: this.#sent() }))
  }

  async get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
    return this.#keep(await send(this.#place, path, { headers: { ...this.#sent(), ...headers } }))
  }

  async post(
    path: string,
    form: Readonly<Record<string, string>>,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Reply> {
    return this.#keep(await send(this.#place, path, { form, headers: { ...this.#sent(), ...headers } }))
  }

  #sent(): Record<string, string> {
    return { ...this.#headers, ...(this.#cookie === '' ? {} : { cookie: this.#cookie }) }
  }

  #keep(reply: Reply): Reply {
    const [cookie] = [reply.headers['set-cookie'] ?? []].flat()
    if (cookie !== undefined) this.#cookie = cookie.split(';')[0] ?? ''
    return reply
  }
}
