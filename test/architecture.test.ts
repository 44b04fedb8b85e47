import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { ROOT } from './helpers/workspace.js'

/** The floors of the house, the lowest first: nothing imports from a floor above its own. */
const FLOORS = ['base', 'system', 'formats', 'engines', 'admin', 'runtime', 'hosts', 'api', 'doors']
/** Which rooms a room may import from, besides itself. Floor `base` is open to all above it. */
const BASE = ['base', 'base/log', 'base/task', 'base/events']
const FILES = [...BASE, 'formats/protocol', 'system', 'system/files', 'engines/contracts', 'engines/spool']
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  base: [],
  'base/log': ['base'],
  'base/task': ['base'],
  'base/events': ['base', 'base/log', 'base/task'],
  system: BASE,
  'system/files': [...BASE, 'system'],
  'system/systemd': [...BASE, 'system'],
  'formats/protocol': BASE,
  'formats/ini': [...BASE, 'system'],
  'formats/control': [...BASE, 'system'],
  'formats/config': [...BASE, 'system', 'formats/protocol', 'formats/ini', 'formats/control'],
  'engines/contracts': [...BASE, 'formats/protocol'],
  'engines/spool': FILES,
  'engines/spool/index': FILES,
  'engines/spool/claims': FILES,
  'engines/spool/store': FILES,
  'engines/spool/admin': [...FILES, 'engines/spool/store', 'engines/spool/claims'],
  'engines/control': [...FILES, 'formats/control'],
  // the daemons of a directory are asked through the sockets in it
  engines: [
    ...FILES,
    'formats/control',
    'engines/spool/index',
    'engines/spool/claims',
    'engines/spool/store',
    'engines/spool/admin',
    'engines/control',
  ],
  'engines/client': [...BASE, 'formats/protocol', 'engines'],
  'admin/operate': [
    ...FILES,
    'formats/ini',
    'formats/control',
    'engines/spool/admin',
    'engines/control',
    'engines',
    'engines/client',
  ],
  'runtime/ipc': BASE,
  'runtime/schedule': BASE,
  'runtime/tasks': [...BASE, 'formats/protocol', 'engines', 'engines/client', 'runtime/schedule'],
  'runtime/worker': [
    ...BASE,
    'formats/protocol',
    'system',
    'engines',
    'runtime/ipc',
    'runtime/schedule',
    'runtime/tasks',
  ],
  'runtime/supervisor': [
    ...BASE,
    'system',
    'engines/contracts',
    'engines',
    'runtime/ipc',
    'runtime/supervisor/scaling',
  ],
  'runtime/supervisor/scaling': BASE,
  'runtime/periodic': [...BASE, 'formats/protocol', 'system', 'engines', 'runtime/schedule'],
  'runtime/stats': [
    ...BASE,
    'system',
    'formats/protocol',
    'engines/contracts',
    'engines',
    'runtime/supervisor',
  ],
  'api/tasks': [...BASE, 'formats/protocol', 'engines', 'engines/client', 'runtime/tasks'],
  'api/embed': [
    ...BASE,
    'system',
    'formats/protocol',
    'formats/config',
    'engines/spool',
    'engines',
    'engines/client',
    'runtime/ipc',
    'runtime/tasks',
    'runtime/worker',
    'runtime/supervisor',
    'runtime/periodic',
    'api/tasks',
  ],
  'api/testing': [...BASE, 'formats/protocol', 'engines', 'runtime/tasks', 'api/tasks'],
  'doors/net': [...BASE, 'formats/protocol', 'formats/config', 'system'],
  'doors/http': [...BASE, 'formats/protocol', 'system', 'doors/net'],
  'doors/control': [...FILES, 'formats/control', 'engines/control', 'doors/net'],
  'doors/exporter': [
    ...BASE,
    'formats/protocol',
    'formats/config',
    'system',
    'runtime/stats',
    'doors/net',
    'doors/http',
  ],
  'doors/dashboard': [
    ...FILES,
    'formats/config',
    'formats/control',
    'engines/spool/admin',
    'engines/control',
    'engines',
    'admin/operate',
    'runtime/stats',
    'doors/net',
    'doors/http',
  ],
  'doors/doctor': [...FILES, 'engines/spool/admin', 'engines'],
  'doors/fsck': [...FILES, 'engines/spool/claims', 'engines/spool/store', 'engines/spool/admin'],
  'doors/check': [
    ...BASE,
    'system',
    'formats/protocol',
    'formats/ini',
    'formats/control',
    'formats/config',
    'runtime/schedule',
    'runtime/supervisor/scaling',
    'doors/net',
  ],
  'doors/daemon': [
    ...FILES,
    'system/systemd',
    'formats/ini',
    'formats/config',
    'formats/control',
    'engines/spool/admin',
    'engines/control',
    'engines',
    'engines/client',
    'runtime/ipc',
    'runtime/schedule',
    'runtime/tasks',
    'runtime/worker',
    'runtime/supervisor',
    'runtime/supervisor/scaling',
    'runtime/periodic',
    'runtime/stats',
    'doors/check',
    'doors/exporter',
    'doors/dashboard',
    'doors/net',
    'doors/control',
  ],
  'doors/cli': [
    ...FILES,
    'system/systemd',
    'formats/ini',
    'formats/config',
    'formats/control',
    'engines/spool/admin',
    'engines/control',
    'engines',
    'engines/client',
    'admin/operate',
    'runtime/schedule',
    'runtime/worker',
    'runtime/stats',
    'runtime/supervisor/scaling',
    'doors/check',
    'doors/doctor',
    'doors/fsck',
    'doors/daemon',
  ],
}
/** The only file that imports each library. */
const SOLE_IMPORTERS: Readonly<Record<string, string>> = {
  chokidar: 'system/files/directory-watch.ts',
  'proper-lockfile': 'system/files/lease.ts',
  koffi: 'system/libc.ts',
  ini: 'formats/ini/lines.ts',
  croner: 'runtime/schedule/cron.ts',
  pino: 'base/log/log.ts',
  'string-width': 'doors/cli/text-width.ts',
  bullmq: 'engines/redis/libraries.ts',
  ioredis: 'engines/redis/libraries.ts',
  '@hono/node-server': 'doors/dashboard/dashboard.ts',
}
/**
 * Functions that change a file system by a path. Rooms that act in a spool have them from system/files/anchored-path.ts, apart
 * from the files of `CHANGERS_BY_PATH`.
 */
const CHANGES_BY_PATH =
  /\b(?:open|writeFile|appendFile|copyFile|cp|rename|link|symlink|unlink|rm|rmdir|mkdir|mkdtemp|chmod|chown|lchown|lutimes|utimes|truncate)(?:Sync)?\b/
const ROOMS_IN_SPOOLS = [
  'system/files',
  'engines/spool',
  'engines/spool/index',
  'engines/spool/claims',
  'engines/spool/store',
  'engines/spool/admin',
  'doors/fsck',
]
const CHANGERS_BY_PATH: Readonly<Record<string, string>> = {
  'system/files/disk-sync.ts': 'opens directories to sync them',
  'doors/fsck/handle.ts': 'owners and modes, of an inode that it holds',
}
/** The files that name a descriptor by a path, because it has to be a path, and what for. */
const BY_DESCRIPTOR_PATH: Readonly<Record<string, string>> = {
  'doors/cli/commands/fsck.ts': 'a spool that root holds, while it looks at rights',
  'doors/fsck/handle.ts':
    'opens an inode again, and changes the owner and mode of a socket or link that it holds',
  'doors/net/listen.ts': 'which socket a descriptor is',
  'system/calls.ts':
    'names below a directory for programs that only store, for bind and connect, leases and watches, and in errors',
  'system/files/anchored-path.ts': 'a held directory, for the same',
  'system/opener.ts':
    'opens again what it holds (a FIFO, a pipe, a terminal), and changes the mode and owner of a socket',
  'system/owner-process.ts': 'opens what another user has opened, where libc cannot be called',
}
/** Files that act on configured paths, and have all of it from system/opener.ts. */
const OPENED_FOR = [
  'base/log/',
  'doors/exporter/',
  'doors/net/',
  'doors/http/',
  'doors/daemon/pidfile.ts',

  'doors/daemon/master-fifo.ts',
  'doors/daemon/root-parent.ts',
  'doors/daemon/live-uwsgi.ts',
  'doors/daemon/lifecycle.ts',
  'doors/cli/commands/token.ts',
  'doors/cli/commands/run.ts',
  'engines/spool/permissions.ts',
  'formats/ini/',
  'system/private-file.ts',
]
/** Functions that open a file by its name, besides those that change a file system. */
const OPENS_BY_PATH = /\b(?:readFile(?:Sync)?|createReadStream|createWriteStream)\b/
/** Files that read, by a path, files of the kernel or of the package, or the socket that a descriptor is. */
const READS_BY_PATH = ['doors/daemon/live-uwsgi.ts', 'doors/net/listen.ts']
/** What bin/spoold.js calls, and the commands of the one module that doors/cli/command-table.ts loads. */
const BY_NAME_AT_RUN_TIME = /^doors\/cli\/main\.ts start$|^doors\/cli\/commands\/tasks\.ts [a-z]+$/
const sourcesIn = (directory: string) =>
  readdirSync(join(ROOT, directory), { recursive: true })
    .map(String)
    .filter(file => /\.tsx?$/.test(file) && !file.endsWith('.d.ts'))
const readAll = (directory: string) =>
  sourcesIn(directory).map(file => readFileSync(join(ROOT, directory, file), 'utf8'))
const files = sourcesIn('src').map(file => ({ file, text: readFileSync(join(ROOT, 'src', file), 'utf8') }))

const importsOf = (text: string) =>
  [...text.matchAll(/(?:from|import\(|require\(|onDemand<\w+>\()\s*'([^']+)'/g)].map(([, name = '']) => name)
const ROOMS = Object.keys(MAY_IMPORT).sort((a, b) => b.length - a.length)
/** Returns the innermost room of a file below src; undefined for one without a rule, and for index.ts, the way out. */
const roomOf = (file: string) => ROOMS.find(room => file.startsWith(`${room}/`))
const floorOf = (file: string) => FLOORS.indexOf(file.split('/')[0] ?? '')

/** Returns the path below src that a relative import means. */
function resolveImport(from: string, name: string): string {
  return new URL(name, `file:///${from}`).pathname.slice(1)
}

/** Returns the source of a module, which imports name with .js. */
function sourceOf(module: string): string {
  const source = module.replace(/\.js$/, '.ts')
  return files.some(({ file }) => file === `${source}x`) ? `${source}x` : source
}

describe('the house', () => {
  it('has only imports that run down, from floor to floor and from room to room', () => {
    const wrong = files.flatMap(({ file, text }) => {
      const room = roomOf(file)
      if (room === undefined) return []
      return importsOf(text)
        .filter(name => name.startsWith('.'))
        .map(name => resolveImport(file, name))
        .filter(to => {
          const other = roomOf(to) ?? ''
          return floorOf(to) > floorOf(file) || (other !== room && !MAY_IMPORT[room]?.includes(other))
        })
        .map(to => `${file} imports ${to}`)
    })
    assert.deepEqual(wrong, [])
  })

  it('has rules between rooms that never lead back to the same room', () => {
    const wrong = Object.entries(MAY_IMPORT).flatMap(([room, others]) =>
      others
        .filter(other => other !== room && reaches(other, room))
        .map(other => `${room} → ${other} → ${room}`),
    )
    assert.deepEqual(wrong, [])
  })

  it('has no room without a rule', () => {
    const wrong = files.filter(({ file }) => file !== 'index.ts' && roomOf(file) === undefined)
    assert.deepEqual(
      wrong.map(({ file }) => file),
      [],
    )
    assert.deepEqual(
      ROOMS.filter(room => !FLOORS.includes(room.split('/')[0] ?? '')),
      [],
    )
  })

  it('has floors that docs/development.md describes in this order, each in one sentence', () => {
    const page = readFileSync(join(ROOT, 'docs/development.md'), 'utf8')
    const rows = [...page.matchAll(/^\| `(\w+)` \| ([^|]+) \|$/gm)].map(([, floor, text = '']) => [
      floor,
      text,
    ])
    const described = rows.filter(([floor = '']) => FLOORS.includes(floor))
    assert.deepEqual(
      described.map(([floor]) => floor),
      FLOORS.toReversed(),
    )
    for (const [floor, text = ''] of described) assert.match(text, /^[^.]{20,}\.$/, floor)
  })

  it('imports doors/cli from nowhere but doors/cli', () => {
    const wrong = files.filter(
      ({ file, text }) =>
        roomOf(file) !== 'doors/cli' &&
        importsOf(text).some(name => resolveImport(file, name).startsWith('doors/cli/')),
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

  it('has no circle of imports', () => {
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

  it('imports no library for a program that only enqueues', () => {
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
    assert.ok(reached.has('engines/spool/store/draft.ts'))
    assert.deepEqual(
      [...reached].filter(name => !name.endsWith('.ts')),
      [],
    )
  })

  for (const [library, only] of Object.entries(SOLE_IMPORTERS))
    it(`imports ${library} in ${only} alone`, () => {
      assert.deepEqual(
        files
          .filter(({ text }) => importsOf(text).some(name => `${name}/`.startsWith(`${library}/`)))
          .map(({ file }) => file),
        [only],
      )
    })

  it('changes what lies in a spool by a path in the listed files alone', () => {
    const wrong = files.filter(({ file, text }) => {
      const names = [...text.matchAll(/import \{([^}]*)\} from 'node:fs(?:\/promises)?'/g)].map(
        ([, list]) => list,
      )
      return ROOMS_IN_SPOOLS.includes(roomOf(file) ?? '') && CHANGES_BY_PATH.test(names.join())
    })
    assert.deepEqual(wrong.map(({ file }) => file).sort(), Object.keys(CHANGERS_BY_PATH).sort())
  })

  it('opens, makes, binds and removes configured paths in one way alone', () => {
    const among = files.filter(({ file }) => OPENED_FOR.some(start => file.startsWith(start)))
    for (const start of OPENED_FOR)
      assert.ok(
        among.some(({ file }) => file.startsWith(start)),
        start,
      )
    const wrong = among.filter(({ file, text }) => {
      const fs = [...text.matchAll(/import ([^;]*?) from 'node:fs(?:\/promises)?'/g)].map(
        ([, names = '']) => names,
      )
      const isWhole = fs.some(names => !names.startsWith('{') && !names.startsWith('type {'))
      const opens = OPENS_BY_PATH.test(fs.join()) && !READS_BY_PATH.includes(file)
      const calls = importsOf(text).some(name => /\/system\/(?:libc|calls|owner-process)\.js$/.test(name))
      return (
        isWhole ||
        CHANGES_BY_PATH.test(fs.join()) ||
        opens ||
        calls ||
        /\.listen\((?:path\b|['`/])/.test(text)
      )
    })
    assert.deepEqual(
      wrong.map(({ file }) => file),
      [],
    )
  })

  it('names descriptors by paths in one way, and only where nothing else will do', () => {
    const importers = files.filter(({ text }) =>
      importsOf(text).some(name => name.endsWith('/descriptor-path.js')),
    )
    assert.deepEqual(importers.map(({ file }) => file).sort(), Object.keys(BY_DESCRIPTOR_PATH).sort())
    const others = files.filter(({ text }) => /`\/proc\/self\/fd\/\$\{/.test(text))
    assert.deepEqual(
      others.map(({ file }) => file),
      ['system/descriptor-path.ts'],
    )
  })

  it('has no any, no non-null assertion, no console below the command line', () => {
    const wrong = files.filter(({ file, text }) => {
      const code = text.replaceAll(/\/\*.*?\*\/|\/\/ [^\n]*/gs, '')
      const hasAny = /: any\b|\bas any\b/.test(code) || text.includes('@ts-ignore')
      return hasAny || (roomOf(file) !== 'doors/cli' && /\bconsole\./.test(code))
    })
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
    assert.ok(exported.length > 30, 'the exported names are found')
    const undocumented = exported.filter(
      ({ name, file }) => !isDocumented(name, files.find(each => each.file === file)?.text ?? ''),
    )
    assert.deepEqual(undocumented, [])
  })
})

/** True if the rules lead from one room to another. */
function reaches(from: string, to: string, seen = new Set<string>()): boolean {
  if (from === to) return true
  if (seen.has(from)) return false
  seen.add(from)
  return (MAY_IMPORT[from] ?? []).some(next => reaches(next, to, seen))
}

/** True if the name has a comment of its own, or is a bundle of options that each have one. */
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
