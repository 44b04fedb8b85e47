import assert from 'node:assert/strict'
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { ROOT, spoolDirectory, workspace } from '../helpers/workspace.js'

function write(directory: string, files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, name)), { recursive: true })
    writeFileSync(join(directory, name), text)
  }
}

describe('an import of spoold in a handler', () => {
  const HANDLERS = {
    'an ES module, and what it imports': {
      'task.mjs': `import { RetryTask } from 'spoold'
import { journal } from './lib/journal.mjs'
export default (env, task) => { journal(typeof RetryTask); return task.SPOOL_OK }`,
      'lib/journal.mjs': `import { appendFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AbortTask } from 'spoold'
const file = dirname(dirname(fileURLToPath(import.meta.url))) + '/journal'
export const journal = text => appendFileSync(file, text + ' ' + typeof AbortTask + '\\n')`,
    },
    CommonJS: {
      'task.cjs': `const { RetryTask, AbortTask } = require('spoold')
module.exports = (env, task) => {
  require('fs').appendFileSync(__dirname + '/journal', typeof RetryTask + ' ' + typeof AbortTask + '\\n')
  return task.SPOOL_OK
}`,
    },
  }
  for (const [what, files] of Object.entries(HANDLERS))
    it(`gets the daemon's copy where none is installed, in ${what}`, async () => {
      const spool = spoolDirectory()
      write(dirname(spool), files)
      const [file = ''] = Object.keys(files)
      const daemon = await startDaemon({
        spool,
        isForeign: true,
        ini: { 'spooler-import': join(dirname(spool), file) },
      })
      drop(spool)
      await until('the task has run', () => daemon.journal().length === 1)
      assert.deepEqual(daemon.journal(), ['function function'])
    })

  it('prefers a copy that is installed beside the handler', async () => {
    const spool = spoolDirectory()
    write(dirname(spool), {
      'node_modules/spoold/package.json':
        '{"name":"spoold","type":"module","exports":{".":"./x.js","./package.json":"./package.json"}}',
      'node_modules/spoold/x.js': `export const copy = 'mine'`,
      'h.mjs': `import { appendFileSync } from 'node:fs'
import { copy } from 'spoold'
export default () => { appendFileSync('${dirname(spool)}/journal', copy + '\\n'); return -2 }`,
    })
    const daemon = await startDaemon({
      spool,
      isForeign: true,
      ini: { 'spooler-import': join(dirname(spool), 'h.mjs') },
    })
    drop(spool)
    await until('the task has run', () => daemon.journal().length === 1)
    assert.deepEqual(daemon.journal(), ['mine'])
  })

  it('works when the daemon is installed in a directory of any other name', async () => {
    const base = workspace()
    const home = join(base, 'lib/elsewhere')
    mkdirSync(home, { recursive: true })
    for (const part of ['bin', 'dist', 'package.json'])
      cpSync(join(ROOT, part), join(home, part), { recursive: true })
    symlinkSync(join(ROOT, 'node_modules'), join(home, 'node_modules'))
    write(base, {
      'h.mjs': `import { RetryTask } from 'spoold'\nimport { writeFileSync } from 'node:fs'
export default () => { writeFileSync('${base}/ran', typeof RetryTask); return -2 }`,
    })
    mkdirSync(join(base, 'spool'))
    drop(join(base, 'spool'))
    const args = ['--spooler', 'spool', '--spooler-import', 'h.mjs', '--drain']
    const daemon = new TestProcess(process.execPath, [join(home, 'bin/spoold.js'), ...args], { cwd: base })
    assert.equal(await daemon.code(), 0, daemon.output)
    assert.match(daemon.output, /done with task/)
  })
})

describe('an error in a handler is shown with file and line', () => {
  const BROKEN = 'export default async (env, task) => {\n  const x = 1 1\n  return task.SPOOL_OK\n}\n'
  const PLACE = /broken\.mjs:2\s+const x = 1 1\n\s+\^+\n\s*SyntaxError: Unexpected number/

  it('at the start, even in a module that the handler imports, and without frames of Node', async () => {
    const spool = spoolDirectory()
    write(dirname(spool), {
      'broken.mjs': BROKEN,
      'handler2.mjs': `import f from './broken.mjs'\nexport default f\n`,
    })
    const daemon = await startDaemon({
      spool,
      isForeign: true,
      isUnready: true,
      ini: { 'spooler-import': join(dirname(spool), 'handler2.mjs') },
    })
    assert.equal(await daemon.code(), 1)
    assert.match(daemon.output, PLACE)
    assert.doesNotMatch(daemon.output, /node:internal/)
  })

  for (const [what, file, files, line] of [
    [
      'in a file that is required',
      'h.cjs',
      {
        'h.cjs': `require('./broken.cjs')\nmodule.exports = () => -2`,
        'broken.cjs': `exports.a = 1\nexports.b: = 2`,
      },
      /SyntaxError: Unexpected token ':'\n +at \S*\/broken\.cjs:2\n +at \S+ \(\S*\/h\.cjs:1:1\)/,
    ],
    [
      'of a name that a module does not export',
      'h.mjs',
      { 'h.mjs': `\nimport { b } from './a.mjs'\nexport default () => b`, 'a.mjs': 'export const a = 1' },
      /SyntaxError: The requested module '\.\/a\.mjs' .*\n +at \S*\/h\.mjs:2\n/,
    ],
    [
      'in a file that a handler loads when it runs',
      'h.cjs',
      { 'h.cjs': `module.exports = () => require('./broken.cjs')`, 'broken.cjs': 'a b' },
      /SyntaxError: Unexpected identifier.*\n +at \S*\/broken\.cjs:1\n(?: +at .*node:.*\n)* +at \S* \(\S*\/h\.cjs:1:\d+\)/,
    ],
  ] as const)
    it(`for a syntax error ${what}`, async () => {
      const spool = spoolDirectory()
      write(dirname(spool), files)
      drop(spool)
      const ini = { 'spooler-import': join(dirname(spool), file) }
      const daemon = await startDaemon({ spool, isForeign: true, isUnready: true, ini, args: ['--drain'] })
      await daemon.code()
      assert.match(daemon.output, line)
    })

  it('by check, for a module that Python does not find', { skip: skipUnless('python3') }, async () => {
    const directory = dirname(spoolDirectory())
    mkdirSync(join(directory, 'lib/far'), { recursive: true })
    write(directory, {
      'near.py': 'raise SystemExit("it was run")',
      'lib/inside.py': '',
      'app.ini': `[uwsgi]
spooler = spool
python = ${PYTHON}
pythonpath = lib
env = PYTHONPATH=${directory}/lib/far
spooler-python-import = nosuch.tasks
import = near
import = inside
import = farther
import = uwsgidecorators
import = spoold.contrib.flask.worker
module = noapp:app
`,
      'lib/far/farther.py': '',
    })
    const { code, stdout } = await spoold(['check', 'app.ini'], { cwd: directory })
    assert.equal(code, 0, stdout)
    assert.deepEqual(
      stdout
        .split('\n')
        .flatMap(line => /^app.ini:(\d+): warning: (.* finds no module \w+):/.exec(line)?.slice(1) ?? []),
      [
        ...['6', `spooler-python-import: ${PYTHON} finds no module nosuch`],
        ...['12', `module: ${PYTHON} finds no module noapp`],
      ],
      stdout,
    )
  })

  it('by check, with its path alone for a file that is missing, and without its modules for a chdir that is missing', {
    skip: skipUnless('python3'),
  }, async () => {
    const directory = dirname(spoolDirectory())
    write(directory, {
      'file.ini': `[uwsgi]\nspooler = spool\npython = ${PYTHON}\nspooler-import = tasks.py\n`,
      'chdir.ini': `[uwsgi]\nspooler = spool\npython = ${PYTHON}\nchdir = nowhere\nimport = tasks\n`,
    })
    const file = await spoold(['check', 'file.ini'], { cwd: directory })
    assert.match(
      file.stdout,
      /^file.ini:4: error: spooler-import: \S+\/tasks.py cannot be read: .*\nfile.ini: 1 error, 0 warnings\n$/,
    )
    const chdir = await spoold(['check', 'chdir.ini'], { cwd: directory })
    assert.match(
      chdir.stdout,
      /^chdir.ini:4: error: chdir: expected a directory, got \S+\/nowhere\nchdir.ini: 1 error, 0 warnings\n$/,
    )
  })

  const runsTypeScript = 'typescript' in process.features && process.features.typescript !== false
  it('by check, in TypeScript that a handler imports', {
    skip: !runsTypeScript && 'this Node runs no TypeScript',
  }, async () => {
    const directory = dirname(spoolDirectory())
    write(directory, {
      'h.mts': `import { x } from './lib.ts'\nexport default (env: object): number => x`,
      'lib.ts': `export const x: number = -2\nenum Fruit { Apple }`,
      'broken.ts': 'export default (env: any => -2',
      'app.ini': '[uwsgi]\nspooler = spool\nspooler-import = h.mts\nspooler-import = broken.ts\n',
    })
    const { code, stdout } = await spoold(['check', 'app.ini'], { cwd: directory })
    assert.equal(code, 1)
    assert.match(
      stdout,
      /app\.ini:3: .*h\.mts cannot be parsed: .*lib\.ts:2\n(.*\n)* +enum .*\n(.*\n)*.* enum is not supported/,
    )
    assert.match(stdout, /app\.ini:4: .*broken\.ts cannot be parsed: .*broken\.ts:1\n(.*\n)*.*Expected/)
  })

  it('but not by check, in TypeScript that NODE_OPTIONS leaves to another loader', async () => {
    const directory = dirname(spoolDirectory())
    write(directory, {
      'h.ts': 'enum Fruit { Apple }\nexport default () => Fruit.Apple',
      'app.ini': '[uwsgi]\nspooler = spool\nspooler-import = h.ts\nenv = NODE_OPTIONS=--import tsx\n',
    })
    const { code, stdout } = await spoold(['check', 'app.ini'], { cwd: directory })
    assert.equal(code, 0, stdout)
  })

  const FILES: ReadonlyArray<readonly [string, string, string, RegExp, 'python3' | 'ruby' | undefined]> = [
    ['JavaScript', 'broken.mjs', BROKEN, PLACE, undefined],
    [
      'Python',
      'broken.py',
      'def f():\n  return 1 +\n',
      /broken\.py", line 2\s+return 1 \+\n\s+\^\n *SyntaxError/,
      'python3',
    ],
    ['Ruby', 'broken.rb', 'def f\n', /broken\.rb:\d+: syntax error/, 'ruby'],
  ]
  for (const [language, name, text, pattern, needed] of FILES)
    it(`by check, in ${language}`, { skip: needed === undefined ? false : skipUnless(needed) }, async () => {
      const directory = dirname(spoolDirectory())
      write(directory, {
        [name]: text,
        'app.ini': `[uwsgi]\nspooler = spool\nspooler-import = ${name}\npython = ${PYTHON}\n`,
      })
      const { code, stdout } = await spoold(['check', 'app.ini'], { cwd: directory })
      assert.equal(code, 1)
      assert.match(stdout, pattern)
      assert.match(stdout, /app.ini:3: error: spooler-import: .*cannot be parsed/)
    })
})

describe('spoold doctor', () => {
  const CASES: ReadonlyArray<readonly [string, Readonly<Record<string, string>>, string, RegExp]> = [
    [
      'reports that good handlers can be loaded',
      { 'h.mjs': 'export default () => -2' },
      'spooler-import = h.mjs',
      /^ok +handlers: .*they can be loaded/m,
    ],
    [
      'reports an error if a handler imports a missing package',
      { 'h.mjs': `import 'nowhere'` },
      'spooler-import = h.mjs',
      /^error +handlers: .*Cannot find package 'nowhere'/m,
    ],
    [
      'reports an error if a module exports no handler',
      { 'h.mjs': `export const x = 1` },
      'spooler-import = h.mjs',
      /^error +handlers: .*exports no handler/m,
    ],
    [
      'reports an error if a handler ends the process',
      { 'h.mjs': 'process.exit(3)' },
      'spooler-import = h.mjs',
      /^error +handlers: .*ended the process \(code 3\)/m,
    ],
    [
      'reports an error if a Python application cannot be imported',
      { 'web.py': 'import nowhere_at_all' },
      'module = web',
      /^error +handlers: .*application of module = web[\s\S]*nowhere_at_all/m,
    ],
    [
      'warns if a Python application registers no handler',
      { 'web.py': 'x = 1' },
      'module = web',
      /^warning +handlers: .*registered no handler/m,
    ],
  ]
  for (const [what, files, line, pattern] of CASES)
    it(what, { skip: line.startsWith('module') ? skipUnless('python3') : false }, async () => {
      const directory = dirname(spoolDirectory())
      write(directory, { ...files, 'app.ini': `[uwsgi]\nspooler = spool\n${line}\npython = ${PYTHON}\n` })
      const { stdout } = await spoold(['doctor', 'app.ini'], { cwd: directory })
      assert.match(stdout, pattern)
    })

  it('stores nothing that handlers enqueue while they load', { skip: skipUnless('python3') }, async () => {
    const directory = dirname(spoolDirectory())
    write(directory, {
      'tasks.py': `import uwsgi\nuwsgi.spooler = lambda env: -2\nuwsgi.spool({b'a': b'b'})\n`,
      'app.ini': `[uwsgi]\nspooler = spool\nspooler-import = tasks.py\npython = ${PYTHON}\n`,
    })
    const { stdout } = await spoold(['doctor', '--json', 'app.ini'], { cwd: directory })
    assert.match(stdout, /they can be loaded/)
    const { stdout: listed } = await spoold(['ls', 'spool'], { cwd: directory })
    assert.doesNotMatch(listed, /uwsgi_spoolfile/)
  })
})
