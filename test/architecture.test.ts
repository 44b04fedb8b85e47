import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { ROOT } from './helpers/workspace.js'

/** Which rooms a room may import from, besides itself. The ground floor is open to all above it. */
const GROUND = ['base', 'log', 'task', 'events']
const FILES = [...GROUND, 'protocol', 'files', 'system', 'spool']
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  base: [],
  log: ['base'],
  task: ['base'],
  events: ['base', 'log', 'task'],
  protocol: GROUND,
  system: GROUND,
  systemd: GROUND,
  files: GROUND,
  ipc: GROUND,
  schedule: GROUND,
  ini: [...GROUND, 'system'],
  config: [...GROUND, 'system', 'ini', 'protocol', 'schedule', 'net', 'control', 'supervisor/scaling'],
  control: FILES,
  spool: FILES,
  'spool/index': FILES,
  'spool/claims': FILES,
  'spool/store': FILES,
  'spool/admin': [...FILES, 'spool/store', 'spool/claims'],
  // the daemons of a directory are asked through the sockets in it
  engines: [...FILES, 'spool/index', 'spool/claims', 'spool/store', 'spool/admin', 'control'],
  worker: [...GROUND, 'protocol', 'system', 'ipc', 'schedule', 'engines', 'tasks'],
  supervisor: [...GROUND, 'system', 'ipc', 'engines', 'supervisor/scaling'],
  'supervisor/scaling': GROUND,
  periodic: [...GROUND, 'protocol', 'system', 'schedule', 'engines'],
  stats: [...GROUND, 'system', 'engines', 'supervisor'],
  http: [...GROUND, 'protocol', 'system', 'net'],
  exporter: [...GROUND, 'protocol', 'system', 'net', 'http', 'stats'],
  dashboard: [...FILES, 'spool/admin', 'engines', 'net', 'http', 'control', 'stats', 'operate'],
  client: [...GROUND, 'protocol', 'engines'],
  tasks: [...GROUND, 'protocol', 'schedule', 'engines', 'client'],
  embed: [
    ...GROUND,
    'protocol',
    'system',
    'config',
    'ipc',
    'spool',
    'engines',
    'worker',
    'supervisor',
    'periodic',
    'tasks',
    'client',
  ],
  testing: [...GROUND, 'protocol', 'engines', 'tasks'],
  net: [...GROUND, 'protocol', 'system'],
  operate: [...FILES, 'ini', 'spool/admin', 'engines', 'client', 'control'],
  doctor: [...FILES, 'spool/admin', 'engines'],
  fsck: [...FILES, 'spool/claims', 'spool/store', 'spool/admin'],
  daemon: [
    ...FILES,
    'ini',
    'config',
    'ipc',
    'schedule',
    'spool/admin',
    'engines',
    'worker',
    'supervisor',
    'supervisor/scaling',
    'periodic',
    'stats',
    'exporter',
    'dashboard',
    'client',
    'net',
    'control',
    'systemd',
  ],
  cli: [
    ...FILES,
    'ini',
    'config',
    'schedule',
    'spool/admin',
    'engines',
    'worker',
    'client',
    'doctor',
    'fsck',
    'systemd',
    'daemon',
    'control',
    'operate',
    'stats',
    'supervisor/scaling',
  ],
}
/** These alone know a library. */
const SOLE_IMPORTERS: Readonly<Record<string, string>> = {
  chokidar: 'files/directory-watch.ts',
  'proper-lockfile': 'files/lease.ts',
  'fs-native-extensions': 'files/record-lock.ts',
  ini: 'ini/lines.ts',
  croner: 'schedule/cron.ts',
  pino: 'log/log.ts',
  'string-width': 'cli/text-width.ts',
  bullmq: 'engines/redis/libraries.ts',
  ioredis: 'engines/redis/libraries.ts',
  '@hono/node-server': 'dashboard/dashboard.ts',
}
/** What changes a file system by a path. Rooms that act in a spool have it from files/anchored-path.ts, apart from these. */
const CHANGES_BY_PATH =
  /\b(?:open|writeFile|appendFile|copyFile|cp|rename|link|symlink|unlink|rm|rmdir|mkdir|mkdtemp|chmod|chown|lchown|lutimes|utimes|truncate)(?:Sync)?\b/
const ROOMS_IN_SPOOLS = [
  'files',
  'spool',
  'spool/index',
  'spool/claims',
  'spool/store',
  'spool/admin',
  'fsck',
]
const CHANGERS_BY_PATH: Readonly<Record<string, string>> = {
  'spool/layout.ts': 'makes the spool itself',
  'files/disk-sync.ts': 'opens directories to sync them',
  'fsck/handle.ts': 'owners and modes, of an inode that it holds',
}
/** What bin/spoold.js calls, and the commands of one module that cli/command-table.ts loads. */
const BY_NAME_AT_RUN_TIME = /^cli\/main\.ts start$|^cli\/commands\/tasks\.ts [a-z]+$/
const MAX_LINES = 250
/** For a file that says why, in a line that begins with `// Longer than others:`. */
const MAX_EXPLAINED_LINES = 300

const sourcesIn = (directory: string) =>
  readdirSync(join(ROOT, directory), { recursive: true })
    .map(String)
    .filter(file => /\.tsx?$/.test(file) && !file.endsWith('.d.ts'))
const readAll = (directory: string) =>
  sourcesIn(directory).map(file => readFileSync(join(ROOT, directory, file), 'utf8'))
const files = sourcesIn('src').map(file => ({ file, text: readFileSync(join(ROOT, 'src', file), 'utf8') }))

const importsOf = (text: string) =>
  [...text.matchAll(/(?:from|import\(|onDemand<\w+>\()\s*'([^']+)'/g)].map(([, name = '']) => name)
const ROOMS_WITHIN = ['spool/index', 'spool/claims', 'spool/store', 'spool/admin', 'supervisor/scaling']
const roomOf = (file: string) =>
  ROOMS_WITHIN.find(room => file.startsWith(`${room}/`)) ??
  (file.includes('/') ? (file.split('/')[0] ?? '') : '')

/** The path below src that a relative import means. */
function resolveImport(from: string, name: string): string {
  return new URL(name, `file:///${from}`).pathname.slice(1)
}

/** The source of a module, which imports name with .js. */
function sourceOf(module: string): string {
  const source = module.replace(/\.js$/, '.ts')
  return files.some(({ file }) => file === `${source}x`) ? `${source}x` : source
}

describe('the house', () => {
  it('has imports that run down only', () => {
    const wrong = files.flatMap(({ file, text }) => {
      const allowed = MAY_IMPORT[roomOf(file)]
      if (allowed === undefined) return [] // index.ts, the way out
      return importsOf(text)
        .filter(name => name.startsWith('.'))
        .map(name => roomOf(resolveImport(file, name)))
        .filter(room => room !== roomOf(file) && !allowed.includes(room))
        .map(room => `${file} imports from ${room === '' ? 'the top' : room}`)
    })
    assert.deepEqual(wrong, [])
  })

  it('has no room without a rule', () => {
    const rooms = new Set(files.map(({ file }) => roomOf(file)))
    assert.deepEqual(
      [...rooms].filter(room => room !== '' && !(room in MAY_IMPORT)),
      [],
    )
  })

  it('is entered from the command line alone by what wires it', () => {
    const wrong = files.filter(
      ({ file, text }) =>
        roomOf(file) !== 'cli' && importsOf(text).some(name => resolveImport(file, name).startsWith('cli/')),
    )
    assert.deepEqual(
      wrong.map(({ file }) => file),
      [],
    )
  })

  it('exports nothing that is not imported', () => {
    const sources = [...files.map(({ text }) => text), ...readAll('test')]
    const clauses = sources.flatMap(text => [
      ...text.matchAll(/\{([^{}]*)\} (?:from|= await import\()/g),
      ...text.matchAll(/import\('[^']*'\)(?:\)\.|\.then\(\s*\(\{ )(\w+)/g),
    ])
    const imported = new Set(
      clauses.flatMap(([, names = '']) =>
        names.split(',').map(name => name.replace(/^\s*(?:type )?/, '').split(/\s/)[0]),
      ),
    )
    const wrong = files.flatMap(({ file, text }) =>
      [...text.matchAll(/^export (?:async |abstract )?(?:function\*?|const|class|interface|type) (\w+)/gm)]
        .map(([, name = '']) => name)
        .filter(name => !imported.has(name) && !BY_NAME_AT_RUN_TIME.test(`${file} ${name}`))
        .map(name => `${file} exports ${name}`),
    )
    assert.deepEqual(wrong, [])
  })

  it('has no circles', () => {
    const graph = new Map(
      files.map(({ file, text }) => [
        file,
        importsOf(text)
          .filter(name => name.startsWith('.'))
          .map(name => sourceOf(resolveImport(file, name))),
      ]),
    )
    const circles: string[] = []
    const done = new Set<string>()
    const visit = (file: string, path: string[]): void => {
      if (path.includes(file)) return void circles.push([...path.slice(path.indexOf(file)), file].join(' → '))
      if (done.has(file)) return
      for (const next of graph.get(file) ?? []) visit(next, [...path, file])
      done.add(file)
    }
    for (const file of graph.keys()) visit(file, [])
    assert.deepEqual(circles, [])
  })

  it('is light to import for a program that only enqueues', () => {
    const reached = new Set<string>()
    const visit = (file: string): void => {
      if (reached.has(file)) return
      reached.add(file)
      const text = files.find(each => each.file === file)?.text ?? ''
      const statics = [...text.matchAll(/^(?:import|export) (?!type )[^;]*?from '([^']+)'/gm)]
      for (const [, name = ''] of statics)
        if (name.startsWith('.')) visit(resolveImport(file, name).replace(/\.js$/, '.ts'))
        else if (!name.startsWith('node:')) reached.add(name)
    }
    visit('index.ts')
    assert.ok(reached.has('spool/store/draft.ts'))
    assert.deepEqual(
      [...reached].filter(name => !name.endsWith('.ts')),
      [],
    )
  })

  for (const [library, only] of Object.entries(SOLE_IMPORTERS))
    it(`knows ${library} in ${only} alone`, () => {
      assert.deepEqual(
        files
          .filter(({ text }) => importsOf(text).some(name => `${name}/`.startsWith(`${library}/`)))
          .map(({ file }) => file),
        [only],
      )
    })

  it('changes what lies in a spool in one way alone', () => {
    const wrong = files.filter(({ file, text }) => {
      const names = [...text.matchAll(/import \{([^}]*)\} from 'node:fs(?:\/promises)?'/g)].map(
        ([, list]) => list,
      )
      return ROOMS_IN_SPOOLS.includes(roomOf(file)) && CHANGES_BY_PATH.test(names.join())
    })
    assert.deepEqual(wrong.map(({ file }) => file).sort(), Object.keys(CHANGERS_BY_PATH).sort())
  })

  it(`has files of at most ${MAX_LINES} lines`, () => {
    const limitOf = (text: string) =>
      /^\/\/ Longer than others: ./m.test(text) ? MAX_EXPLAINED_LINES : MAX_LINES
    assert.deepEqual(
      files.filter(({ text }) => text.split('\n').length - 1 > limitOf(text)).map(({ file }) => file),
      [],
    )
  })

  it('has no any, no non-null assertion, no console below the command line', () => {
    const wrong = files.filter(
      ({ file, text }) =>
        /: any\b|\bas any\b|@ts-ignore/.test(text) || (roomOf(file) !== 'cli' && /\bconsole\./.test(text)),
    )
    assert.deepEqual(
      wrong.map(({ file }) => file),
      [],
    )
  })

  it('documents each name that it exports to users', () => {
    const index = files.find(({ file }) => file === 'index.ts')?.text ?? ''
    const exported = [...index.matchAll(/export (?:type )?\{([^}]*)\} from '\.\/([^']+)\.js'/g)].flatMap(
      ([, names = '', from]) =>
        [...names.matchAll(/(?:type )?(\w+)/g)].map(([, name = '']) => ({ name, file: `${from}.ts` })),
    )
    assert.ok(exported.length > 30, 'the names were not found')
    const undocumented = exported.filter(
      ({ name, file }) => !isDocumented(name, files.find(each => each.file === file)?.text ?? ''),
    )
    assert.deepEqual(undocumented, [])
  })
})

/** It has a comment of its own, or is a bundle of options that each have one. */
function isDocumented(name: string, text: string): boolean {
  const declared = new RegExp(
    `(\\*/\\n)?^export (?:async )?(?:class|function|const|interface|type) ${name}\\b`,
    'm',
  )
  const [declaration, comment] = declared.exec(text) ?? []
  if (declaration === undefined || comment !== undefined) return declaration !== undefined
  const body = new RegExp(`^export interface ${name}\\b[^{]*\\{\\n(.*?)^\\}`, 'ms').exec(text)?.[1]
  if (body === undefined) return false
  const members = body.split('\n').map(line => line.trim())
  return members.every((line, i) => !/^(readonly )?\w+\??[:(]/.test(line) || members[i - 1]?.endsWith('*/'))
}
