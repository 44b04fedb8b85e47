import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import type { Redis } from 'ioredis'
import { shellWord } from '#src/base/printable.js'
import { toByteString, toFsPath } from '#src/base/task/ref.js'
import { COMMANDS } from '#src/doors/cli/command-table.js'
import { draw } from '#src/doors/cli/top/screen.js'
import { initialState } from '#src/doors/cli/top/state.js'
import { TABS } from '#src/doors/cli/top/tabs.js'
import { PAGES } from '#src/doors/dashboard/pages/index.js'
import { urlTextOf } from '#src/doors/dashboard/spools.js'
import { type CliResult, inProcess } from '../helpers/cli.js'
import { writeIni } from '../helpers/daemon.js'
import { Browser, give, startDashboard } from '../helpers/dashboard.js'
import { packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { startRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { daemonSnapshot, spoolSnapshot } from '../helpers/snapshots.js'
import { BIN, workspace } from '../helpers/workspace.js'

/** A terminal title, a colour by a C1 code, changes of direction, and a forged line. */
const FORGED = '*** forged line ***'
const EVIL = `e\x1b]0;P\x07\x9b3m\u202e\n${FORGED}\u2066\x7f`
/** The same in one line, as an ini has it. */
const EVIL_LINE = EVIL.replace('\n', ' ')
const NOT_UTF8 = 'n\xff\x9b3m\x1b'
const LATER = '4000000000'

// biome-ignore lint/suspicious/noControlCharactersInRegex: that is the point
const OBEYED = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/

function assertPrintable(text: string, what: string): void {
  const found = OBEYED.exec(text)
  const near =
    found === null ? '' : JSON.stringify(text.slice(Math.max(0, found.index - 60), found.index + 20))
  assert.equal(found, null, `${what}: ${near}`)
  assert.ok(!text.split('\n').some(line => line.startsWith(FORGED)), `${what}: ${text}`)
}

/** Makes a spool with a hostile name, and with hostile tasks, dead letters, records, pauses and a hostile audit. */
function evilSpool(parent: string, called = EVIL): string {
  const spool = join(mkdtempSync(join(parent, 's')), called)
  const vars = { [EVIL]: EVIL, task: EVIL, args: JSON.stringify([EVIL]), customer: EVIL }
  for (const directory of ['', '7', '.spoold', '.spoold/dead', '.spoold/records', '.spoold/periodic'])
    mkdirSync(join(spool, directory), { recursive: true, mode: 0o700 })
  const put = (name: string, bytes: Buffer | string) =>
    writeFileSync(toFsPath(`${toByteString(spool)}/${name}`), bytes, { mode: 0o600 })
  const name = toByteString(EVIL)
  put(name, packet({ ...vars, at: LATER }, EVIL))
  put(NOT_UTF8, packet({ ...vars, at: LATER }))
  put(`7/${name}`, packet(vars))
  put(`${name}-broken`, EVIL)
  const failed = {
    attempts: 2,
    crashes: 1,
    firstFailureAt: 1,
    lastFailureAt: 2,
    lastError: `${EVIL}\n${EVIL}`,
  }
  put(`${name}-retried`, Buffer.concat([Buffer.from([17, 0, 0, 1])]))
  put(
    `.spoold/records/${name}-retried.json`,
    JSON.stringify({ ...failed, history: [{ at: 1, kind: 'error', error: EVIL }] }),
  )
  put(`.spoold/dead/${name}`, packet(vars, EVIL))
  put(
    `.spoold/dead/${name}.json`,
    JSON.stringify({
      ...failed,
      ref: name,
      reason: 'asked',
      detail: EVIL,
      buriedAt: 3,
      handlers: [EVIL],
      host: EVIL,
    }),
  )
  put(
    '.spoold/paused',
    JSON.stringify({ pauses: [{ since: 1, key: toByteString(EVIL), value: toByteString(EVIL) }] }),
  )
  put('.spoold/audit', `${JSON.stringify({ at: 1, who: EVIL, role: EVIL, action: EVIL, filter: EVIL })}\n`)
  return spool
}

/** A snapshot in which every text that a daemon may choose is hostile. */
function evilSnapshot(spool: string) {
  const rates = { done: { m1: 0, m5: 0, m15: 0 }, failed: { m1: 0, m5: 0, m15: 0 } }
  const named = {
    name: EVIL,
    slots: 1,
    running: 1,
    started: 1,
    done: 1,
    retried: 1,
    buried: 1,
    other: 1,
    killed: 1,
  }
  const worker = {
    pid: 1,
    state: EVIL,
    isLone: false,
    concurrency: 1,
    spawnedAtMs: 1,
    ran: 1,
    busyMs: 1,
    paceMs: 1,
  }
  const running = [{ task: EVIL, ref: toByteString(EVIL), sinceMs: 1 }]
  const figures = spoolSnapshot({
    directory: spool,
    tasks: {
      parked: { [EVIL]: 1 } as never,
      slotQueues: [{ name: EVIL, count: 1, parked: 1 }],
      priorities: [{ priority: EVIL, due: 1 }],
    },
    dead: { count: 1, byReason: { [EVIL]: 1 } },
    paused: { pauses: [{ pair: [EVIL, EVIL], sinceMs: 1, untilMs: null }], fault: EVIL },
    processes: {
      size: { algorithm: EVIL, minimum: 1, maximum: 9, reason: EVIL, isByHand: false },
      workers: [{ ...worker, outstanding: 1, running, signals: [], rssBytes: 1, vszBytes: 1 }] as never,
    },
  })
  const snapshot = daemonSnapshot(Date.now(), {
    ...figures,
    named: [{ ...named, ranMs: 1, rates }],
    leadership: EVIL as never,
  })
  const common = { origin: EVIL, spool, nextAtMs: 1, pausedSinceMs: null, id: EVIL }
  const schedules = [
    { kind: 'command', command: EVIL, expression: EVIL, zone: EVIL },
    { kind: 'periodic', name: EVIL, queue: EVIL, when: { expression: EVIL, zone: EVIL } },
    { kind: 'monitor', number: 1, path: EVIL },
  ]
  return {
    ...snapshot,
    daemon: { ...snapshot.daemon, version: EVIL, state: EVIL, host: EVIL, files: [EVIL], directory: EVIL },
    schedules: schedules.map(schedule => ({ ...common, schedule })),
    sockets: [{ address: EVIL, backlog: 1, connections: 1 }],
  }
}

/** Returns what a hostile daemon answers. */
function evilAnswer(verb: string, spool: string): unknown {
  switch (verb) {
    case 'snapshot':
      return evilSnapshot(spool)
    case 'parked': {
      const group = { name: EVIL, slots: 1, count: 1, tasks: [toByteString(EVIL)] }
      return { pid: 1, groups: ['slot', 'unknown-name', 'alone'].map(reason => ({ ...group, reason })) }
    }
    case 'next':
    case 'later':
      return { pid: 1, tasks: [toByteString(EVIL)] }
    case 'config': {
      const setting = { option: EVIL, value: EVIL, from: EVIL, spool: EVIL }
      return { pid: 1, settings: [setting], isCut: false, waiting: [setting] }
    }
    case 'scale':
      return { pid: 1, wanted: 1, present: 1, size: { algorithm: EVIL } }
    case 'cancel':
      return { result: 'refused', detail: EVIL }
    default:
      return { pid: 1, done: EVIL }
  }
}

const EVENTS: Readonly<Record<string, unknown>> = {
  events: {
    lines: [
      { atMs: 1e300, level: EVIL, text: EVIL },
      { atMs: 1, level: 'info', text: EVIL },
    ],
    missed: 1,
  },
  cancel: { pid: 1, others: 1 },
}

type Manner = 'answers' | 'refuses'

/** Listens on the control socket of the spool as a hostile daemon. */
async function evilDaemon(spool: string, manner: Manner): Promise<Server> {
  const server = createServer({ allowHalfOpen: true }, socket => {
    socket.on('error', () => {})
    socket.once('data', data => {
      const { verb } = JSON.parse(String(data).split('\n', 1)[0] ?? '')
      const say = (reply: object) => socket.write(`${JSON.stringify({ v: 1, id: 1, ...reply })}\n`)
      if (verb in EVENTS) say({ event: EVENTS[verb] })
      if (manner === 'answers') say({ ok: evilAnswer(verb, spool) })
      else say({ error: { code: EVIL, message: EVIL } })
      socket.end()
    })
  })
  // the path of a socket has at most 107 bytes
  const short = join(dirname(spool), 'c')
  await once(server.listen(short), 'listening')
  renameSync(short, join(spool, '.spoold/control'))
  return server
}

/** Returns the arguments without which a command would be refused at once. */
function basesOf(command: string, home: string): readonly string[] {
  switch (command) {
    case 'wait':
      return ['--timeout', '0.05s']
    case 'token':
      return ['--name', 'x', '--role', 'viewer']
    case 'move':
      return ['--to', join(home, EVIL)]
    case 'enqueue':
      return [`${EVIL}=${EVIL}`]
    case 'scaling':
      return ['--pattern', 'idle', '--algorithms', 'spare']
    default:
      return []
  }
}

interface Run {
  readonly args: readonly string[]
  readonly manner?: Manner
}

/** Every positional argument and every flag of a command that could bring something hostile. */
function* runsOf(
  command: (typeof COMMANDS)[number],
  home: string,
  places: readonly string[],
): Generator<Run> {
  const { name, flags } = command
  const base = [name, ...basesOf(name, home)]
  const json = flags.some(([text]) => text === '--json')
  yield { args: [name] }
  for (const word of [EVIL, `--${EVIL}`, ...places]) {
    yield { args: [...base, word] }
    if (json) yield { args: [...base, '--json', word] }
  }
  for (const manner of ['answers', 'refuses'] as const)
    for (const more of [[], ...(json ? [['--json']] : [])])
      yield { args: [...base, ...more, 'SPOOL'], manner }
  for (const [text] of flags) {
    const [flag = ''] = /--[a-z-]+/.exec(text) ?? []
    const takesValue = text.includes('<')
    yield { args: [...base, flag, ...(takesValue ? [EVIL] : []), 'SPOOL'] }
    if (flag === '--ini')
      for (const ini of ['INI', 'BROKEN']) yield { args: [...base, flag, ini], manner: 'answers' }
    if (takesValue && /spool|key|path|to/.test(text)) yield { args: [...base, flag, 'SPOOL', 'SPOOL'] }
  }
  for (const last of ['on', '+1', 'auto']) yield { args: [...base, 'SPOOL', last], manner: 'answers' }
  for (const id of ['--run', '--pause'])
    if (name === 'schedules') yield { args: [name, id, EVIL, 'SPOOL'], manner: 'answers' }
}

/** Stores hostile jobs, as anybody who may write to Redis can. */
async function evilJobs(client: Redis, key: string): Promise<void> {
  const data = (vars: Readonly<Record<string, string>>) =>
    JSON.stringify({ packet: packet(vars).toString('base64'), body: Buffer.from(EVIL).toString('base64') })
  const vars = { [EVIL]: EVIL, task: EVIL, args: '[]' }
  const opts = JSON.stringify({ priority: 2_097_151, attempts: 1 })
  const failed = {
    attempts: 1,
    crashes: 1,
    lastError: EVIL,
    movedTo: EVIL,
    firstFailureAt: 1,
    lastFailureAt: 2,
  }
  const fields = { name: EVIL, data: data(vars), opts, timestamp: 1, priority: 2_097_151, failedReason: EVIL }
  for (const [id, place, score] of [
    [EVIL, 'prioritized', 2_097_151 * 2 ** 32],
    [`dead${EVIL}`, 'failed', 1],
    [`later${EVIL}`, 'delayed', 2 ** 53],
  ] as const) {
    await client.hset(`${key}${id}`, { ...fields, progress: JSON.stringify({ ...failed, reason: EVIL }) })
    await client.zadd(`${key}${place}`, score, id)
  }
  const facts = { host: EVIL, pid: 1, startedAtMs: 1, wanted: 1, present: 1, running: 1, controls: EVIL }
  const member = { ...facts, isDaemon: true, isHalted: true, atMs: Date.now() }
  await client.hset(`${key}spoold:members`, {
    a: JSON.stringify(member),
    b: JSON.stringify({ ...member, host: hostname() }),
  })
  await client.hset(`${key}spoold:limited`, EVIL, `${key}x`)
  await client.lpush(`${key}spoold:audit`, JSON.stringify({ at: 1, who: EVIL, role: EVIL, action: EVIL }))
}

const missing = skipUnless('redis-server')

describe('hostile text', () => {
  const redis = missing === false ? startRedis() : undefined
  const home = workspace()
  const before = process.cwd()
  process.chdir(home) // because some of the words become names of files
  after(() => process.chdir(before))
  const broken = join(home, `${EVIL}-2.ini`)
  writeIni(broken, { [EVIL_LINE]: EVIL_LINE, 'spooler-processes': EVIL_LINE })

  const run = async (
    { args, manner }: Run,
    more: Readonly<Record<string, string>> = {},
  ): Promise<CliResult> => {
    const spool = evilSpool(home, args.includes('INI') ? EVIL_LINE : EVIL)
    const ini = join(dirname(spool), `${EVIL}.ini`)
    writeIni(ini, { spooler: spool, 'spooler-exec': `/bin/true ${EVIL_LINE}` })
    const words: Readonly<Record<string, string>> = {
      ...{
        SPOOL: spool,
        INI: ini,
        BROKEN: broken,
        TASK: join(spool, EVIL),
        GONE: join(spool, `${EVIL}-gone`),
      },
      ...{ LETTER: join(spool, '.spoold/dead', EVIL), MALFORMED: join(spool, `${EVIL}-broken`) },
      ...more,
    }
    const server = manner === undefined ? undefined : await evilDaemon(spool, manner)
    try {
      return await inProcess(
        args.map(word => words[word] ?? word),
        { input: `{"${EVIL}":`, env: { NO_COLOR: '1' } },
      )
    } finally {
      server?.close()
      rmSync(dirname(spool), { recursive: true })
    }
  }
  const PLACES = ['SPOOL', 'TASK', 'GONE', 'LETTER', 'MALFORMED', 'INI', 'BROKEN', `redis://${EVIL}`]

  const allPrintable = async (runs: Iterable<Run>, more?: Readonly<Record<string, string>>) => {
    let said = 0
    for (const each of runs) {
      const { stdout, stderr } = await run(each, more)
      const what = `${each.args.map(word => JSON.stringify(word)).join(' ')} (${each.manner})`
      assertPrintable(stdout, what)
      assertPrintable(stderr, what)
      if (each.args.includes('--json'))
        for (const line of stdout.split('\n').filter(text => text.startsWith('{"')))
          assert.doesNotThrow(() => JSON.parse(line), what)
      said += Number(`${stdout}${stderr}`.includes('forged line'))
    }
    return said
  }

  for (const command of COMMANDS)
    it(`is printed without control characters by the command ${command.name}`, async () => {
      const said = await allPrintable(runsOf(command, home, PLACES))
      assert.ok(said > 0, 'no hostile text was printed at all')
    })

  it('in Redis is printed without control characters by every command', { skip: missing }, async () => {
    assert.ok(redis !== undefined)
    await redis.ready()
    const { client } = redis
    let said = 0
    for (const { name, flags } of COMMANDS) {
      const key = `bull:of-${name}:`
      await evilJobs(client, key)
      const json = flags.some(([text]) => text === '--json')
      const address = redis.address(`of-${name}`)
      const words = ['ADDRESS', 'JOB', 'DEAD', 'NONE'].flatMap(word => [
        [word],
        ...(json ? [['--json', word]] : []),
      ])
      const forms = [
        ...words,
        ...flags.flatMap(([text]) => (text.includes('--ini') ? [['--ini', 'ON_REDIS']] : [])),
      ]
      const ini = join(home, 'on-redis.ini')
      writeIni(ini, { spooler: address, 'spooler-exec': '/bin/true' })
      const runs = forms.map(form => ({ args: [name, ...basesOf(name, home), ...form] }))
      const places = { ADDRESS: address, JOB: `${address}/${EVIL}`, DEAD: `${address}/dead${EVIL}` }
      said += await allPrintable(runs, { ...places, NONE: `${address}/none${EVIL}`, ON_REDIS: ini })
    }
    assert.ok(said > 10, `only ${said} runs have printed hostile text`)
  })

  for (const format of ['text', 'json'])
    it(`is logged without control characters in the format ${format}`, async () => {
      const spool = evilSpool(home, EVIL_LINE)
      const handler = join(dirname(spool), `${EVIL_LINE}.mjs`)
      writeFileSync(
        handler,
        `export default env => { console.log(env.print); throw Object.assign(new Error(env.print), { name: env.print }) }`,
      )
      const ini = join(dirname(spool), `${EVIL_LINE}.ini`)
      writeIni(ini, {
        spooler: spool,
        'spooler-import': handler,
        'log-format': format,
        'spooler-ordered': true,
      })
      const daemon = new TestProcess(process.execPath, [BIN, ini], { cwd: home })
      await daemon.waitFor(/is running/)
      const print = `${EVIL}${EVIL}`
      writeFileSync(join(dirname(spool), 'new'), packet({ print, task: EVIL }, EVIL))
      renameSync(join(dirname(spool), 'new'), join(spool, `${EVIL}-new`))
      await daemon.waitFor(/failed, runs again/)
      assert.equal((await inProcess(['resume', '--all', spool])).code, 0)
      await daemon.waitFor(/resumed/)
      daemon.child.kill('SIGTERM')
      await daemon.exited
      assertPrintable(daemon.output, 'the log')
      assert.ok(daemon.output.split('forged line').length > 5, daemon.output)
      if (format === 'json')
        for (const line of daemon.output.split('\n').filter(text => text.startsWith('{')))
          assert.doesNotThrow(() => JSON.parse(line))
    })

  it('is shown without control characters on every page of the dashboard, and unchanged in its forms', async () => {
    const spool = evilSpool(home, EVIL_LINE)
    chmodSync(home, 0o755)
    for (const each of readdirSync(spool, { recursive: true, encoding: 'latin1' }))
      give(toFsPath(`${toByteString(spool)}/${each}`))
    const at = await startDashboard({ spool, ini: { 'spooler-dashboard-enqueue': true } })
    const id = basename(spool).replace(/[^A-Za-z0-9._-]/g, '-')
    const browser = new Browser(at.place)
    await browser.logIn(at.tokenOf('admin', true))
    const name = toByteString(EVIL)
    const refs = [name, NOT_UTF8, `${name}-broken`, `.spoold/dead/${name}`].map(urlTextOf)
    const query = new URLSearchParams({ grep: EVIL_LINE })
    let said = 0
    for (const page of PAGES.filter(({ path }) => !path.endsWith('/body')))
      for (const ref of page.path.includes(':ref') ? refs : [''])
        for (const more of ['', `?${query}`]) {
          const path = page.path.replace(':spool', id).replace(':ref', ref).replace(':action', 'hold')
          const { text } = await browser.get(`${path}${more}`)
          const shown = text.replaceAll(/<[^>]*>/g, ' ').replaceAll('\n', ' ')
          assertPrintable(shown, path)
          said += Number(shown.includes('forged line'))
        }
    assert.ok(said > 10, `only ${said} pages have shown hostile text`)
    const { text: found } = await browser.get(`/spools/${id}/find?${query}`)
    assert.ok(found.includes(`value="${EVIL_LINE}"`), 'the search field holds another text')
    const { text: edited } = await browser.get(`/spools/${id}/tasks/${urlTextOf(`.spoold/dead/${name}`)}`)
    const [, vars = ''] = /<textarea[^>]*>([^<]*)/.exec(edited) ?? []
    assert.equal(JSON.parse(vars.replaceAll('&quot;', '"'))[EVIL], EVIL)
  })

  it('becomes one printable shell word that means the same bytes', () => {
    const bytes = Array.from({ length: 255 }, (_, i) => i + 1).filter(byte => byte !== 0x2f)
    const names = [
      Buffer.from(bytes),
      ...bytes.map(byte => Buffer.from([0x61, byte])),
      Buffer.from(`${EVIL}'\\`),
    ]
    const words = names.map(name => shellWord(name))
    for (const word of words) assert.match(word, /^[\x20-\x7e]+$/)
    const echoed = execFileSync('bash', ['-c', `printf '%s/' ${words.join(' ')}`])
    assert.deepEqual(echoed, Buffer.concat(names.flatMap(name => [name, Buffer.from('/')])))
    assert.equal(shellWord('/var/spool/app'), '/var/spool/app')
    assert.equal(shellWord("it's été"), "'it'\\''s été'")
  })

  it('is drawn without control characters on every tab of top', async () => {
    const snapshot = evilSnapshot('/x')
    const statuses = snapshot.spools.map(spool => ({
      ...{ source: 'daemon' as const, atMs: snapshot.atMs, daemon: snapshot.daemon, ...spool },
      schedules: snapshot.schedules,
    }))
    const cells = Array.from({ length: 12 }, () => EVIL)
    const rows = [{ id: EVIL, cells }]
    for (const { name: tab } of TABS)
      for (const mode of [
        { kind: 'list' },
        { kind: 'text', lines: [EVIL, EVIL], first: 0 },
        { kind: 'prompt', of: 'filter', text: EVIL },
      ]) {
        const look = { spool: EVIL, tab, filter: EVIL, statuses, rows, scope: EVIL, atMs: 1 }
        const state = { ...initialState([EVIL]), tab, look, mode, filter: EVIL, message: EVIL }
        const lines = draw(state as never, { columns: 200, rows: 60 }, false)
        assertPrintable(lines.join('\n').replaceAll('\x1b[7m', '').replaceAll('\x1b[27m', ''), `top: ${tab}`)
      }
  })
})
