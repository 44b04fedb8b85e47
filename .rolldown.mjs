// Builds the shipped program: spoold's own modules in a few files, because to find and link modules one by one is most of
// what a start takes; as CommonJS, which Node loads faster than ES modules. Dependencies stay packages of their own.
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { build } from 'rolldown'

/** What is made takes the place of `dist` as a whole: a daemon that starts meanwhile finds the one or the other. */
const made = `.dist-${process.pid}`
const replaced = `${made}-replaced`

const { dependencies, optionalDependencies, peerDependencies } = JSON.parse(
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
    'worker-thread': 'src/runtime/worker/thread.ts',
    exporter: 'src/doors/exporter/main.ts',
    dashboard: 'src/doors/dashboard/main.ts',
    rehearse: 'src/runtime/worker/rehearse.ts',
    'program-watcher': 'src/runtime/worker/program-watcher.ts',
    'own-package-hook': 'src/runtime/worker/own-package-hook.ts',
    'batch-thread': 'src/engines/spool/store/batch-thread.ts',
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
  plugins: [importable('index'), importable('testing')],
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
for (const writer of ['perl/Spool.pm', 'ruby/spool.rb'])
  cpSync(
    join('spool-examples/enqueue', writer),
    join(made, 'hosts', dirname(writer), 'library', basename(writer)),
  )
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

/** For `import`: the same module as for `require`, with its names written out. */
function importable(entry) {
  return {
    name: 'importable',
    generateBundle(_options, bundle) {
      const names = bundle[`${entry}.cjs`].exports.join(', ')
      const source = `import { createRequire } from 'node:module'\n
export const { ${names} } = createRequire(import.meta.url)('./${entry}.cjs')\n`
      this.emitFile({ type: 'asset', fileName: `${entry}.js`, source })
    },
  }
}
