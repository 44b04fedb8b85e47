// Builds the shipped program: spoold's own modules in a few files, because to find and link modules one by one is most of
// what a start takes; as CommonJS, which Node loads faster than ES modules. Dependencies stay packages of their own.
import { createHash } from 'node:crypto'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { zipSync } from 'fflate'
import { build } from 'rolldown'

/** What is made takes the place of `dist` as a whole: a daemon that starts meanwhile finds the one or the other. */
const made = `.dist-${process.pid}`
const replaced = `${made}-replaced`

const { version, license, dependencies, optionalDependencies, peerDependencies } = JSON.parse(
  readFileSync('package.json', 'utf8'),
)
const packages = Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })

await build({
  // what a process or a thread begins with (src/base/package-root.ts), and what programs import
  input: {
    spoold: 'src/doors/cli/main.ts',
    index: 'src/index.ts',
    testing: 'src/api/testing/index.ts',
    worker: 'src/runtime/worker/main.ts',
    aside: 'src/runtime/worker/aside.ts',
    'worker-thread': 'src/runtime/worker/thread.ts',
    exporter: 'src/doors/exporter/main.ts',
    dashboard: 'src/doors/dashboard/main.ts',
    rehearse: 'src/runtime/worker/rehearse.ts',
    'as-owner': 'src/system/as-owner.ts',
    'program-watcher': 'src/runtime/worker/program-watcher.ts',
    'own-package-hook': 'src/runtime/worker/own-package-hook.ts',
  },
  platform: 'node',
  external: name => name.startsWith('node:') || packages.some(each => `${name}/`.startsWith(`${each}/`)),
  output: {
    dir: made,
    format: 'cjs',
    entryFileNames: '[name].cjs',
    chunkFileNames: 'chunks/[name].cjs',
    sourcemap: true,
    sourcemapExcludeSources: true,
    comments: false,
  },
  plugins: [inOneByte(), importable('index'), importable('testing')],
})

for (const file of ['index.d.ts', 'api/testing/index.d.ts']) copyTypes(file)
// where package.json promises them
mkdirSync(join(made, 'types/testing'))
writeFileSync(join(made, 'types/testing/index.d.ts'), "export * from '../api/testing/index.js'\n")
// so that TypeScript takes them for both kinds of importers; there are no default exports, in which alone these differ
writeFileSync(join(made, 'types/package.json'), '{ "type": "commonjs" }\n')
cpSync('src/hosts', join(made, 'hosts'), { recursive: true, filter: path => !path.endsWith('__pycache__') })
cpSync('src/doors/dashboard/assets', join(made, 'dashboard'), { recursive: true })
// the libraries of named tasks store with the writers that people may also copy
for (const writer of ['perl/Spool.pm', 'perl/SpoolSocket.pm', 'ruby/spool.rb', 'ruby/spool_socket.rb'])
  cpSync(
    join('spool-examples/enqueue', writer),
    join(made, 'hosts', dirname(writer), 'library', basename(writer)),
  )
makeWheel()
if (existsSync('dist')) renameSync('dist', replaced)
renameSync(made, 'dist')
rmSync(replaced, { recursive: true, force: true })

/** What a program that imports spoold is checked against: these declarations, and those that they mention. */
function copyTypes(file, copied = new Set()) {
  if (copied.has(file)) return
  copied.add(file)
  cpSync(join('build/src', file), join(made, 'types', file))
  const text = readFileSync(join('build/src', file), 'utf8')
  for (const [, path] of text.matchAll(/(?:from|import\() ?'(\.[^']+)\.js'/g))
    copyTypes(join(dirname(file), `${path}.d.ts`), copied)
}

/**
 * Python's library as a package that pip installs without a network, from any directory: a zip file with three lists of its
 * own (packaging.python.org, "Binary distribution format").
 */
function makeWheel() {
  const library = 'src/hosts/python/library'
  const own = `spoold-${version}.dist-info`
  const extras = {
    flask: 'Flask>=2.2',
    django: 'Django>=3.2',
    sentry: 'sentry-sdk>=1.9',
    datadog: 'ddtrace>=2.0',
  }
  const files = readdirSync(library, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile() && !entry.name.endsWith('.pyc'))
    .map(({ parentPath, name }) => join(parentPath, name))
    .sort()
    .map(path => [path.slice(library.length + 1), readFileSync(path)])
  const metadata = [
    'Metadata-Version: 2.1',
    'Name: spoold',
    `Version: ${version}`,
    'Summary: Named tasks on plain files, for spoold',
    `License: ${license}`,
    'Requires-Python: >=3.7',
    ...Object.entries(extras).flatMap(([extra, needs]) => [
      `Provides-Extra: ${extra}`,
      `Requires-Dist: ${needs}; extra == "${extra}"`,
    ]),
  ]
  const wheel = ['Wheel-Version: 1.0', 'Generator: spoold', 'Root-Is-Purelib: true', 'Tag: py3-none-any']
  for (const [name, lines] of Object.entries({ METADATA: metadata, WHEEL: wheel }))
    files.push([`${own}/${name}`, Buffer.from(`${lines.join('\n')}\n`)])
  const hash = bytes => createHash('sha256').update(bytes).digest('base64url')
  const record = files.map(([path, bytes]) => `${path},sha256=${hash(bytes)},${bytes.length}\n`)
  files.push([`${own}/RECORD`, Buffer.from(`${record.join('')}${own}/RECORD,,\n`)])
  const zip = zipSync(Object.fromEntries(files), { mtime: new Date(2020, 0, 1) }) // the same bytes each time
  writeFileSync(join(made, 'hosts/python', `spoold-${version}-py3-none-any.whl`), zip)
}

/** One `…` in a file of 100 kB makes V8 keep it in two bytes for each character: what is not of Latin-1 is written as an escape. */
function inOneByte() {
  return {
    name: 'in-one-byte',
    generateBundle(_options, bundle) {
      for (const chunk of Object.values(bundle))
        chunk.code = chunk.code?.replace(
          /[^\0-\xff]/g,
          unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
        )
    },
  }
}

/** For `import`: the same module as for `require`, with its names written out. */
function importable(entry) {
  return {
    name: 'importable',
    generateBundle(_options, bundle) {
      const names = bundle[`${entry}.cjs`].exports.join(', ')
      const source = `import { createRequire } from 'node:module'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

let isWhole = false
try {
  isWhole = existsSync(fileURLToPath(new URL('./${entry}.cjs', import.meta.url)))
} catch {} // a bundle of CommonJS has no import.meta.url
if (!isWhole)
  throw new Error('spoold cannot be part of a bundle, because it starts programs of its package: leave it out, and install it beside the bundle (esbuild --external:spoold; rolldown, Rollup and webpack: external)')
export const { ${names} } = createRequire(import.meta.url)('./${entry}.cjs')\n`
      this.emitFile({ type: 'asset', fileName: `${entry}.js`, source })
    },
  }
}
