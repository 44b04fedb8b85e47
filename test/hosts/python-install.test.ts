import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { inProcess, spoold } from '../helpers/cli.js'
import { leftIn } from '../helpers/files.js'
import { PYTHON, python, type Version, virtualenv } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { FIXTURES, ROOT, spoolDirectory, workspace } from '../helpers/workspace.js'
import { PYTHON_LIBRARY, pythonEnv, runPython } from './named-host.js'

const VERSION: string = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version
const WHEEL = join(ROOT, `dist/hosts/python/spoold-${VERSION}-py3-none-any.whl`)

describe("the wheel of Python's library", () => {
  it('is named by spoold python-library, with its extras and what to do next', async () => {
    const { code, stdout, stderr } = await inProcess(['python-library'])
    assert.deepEqual([code, stdout], [0, `${WHEEL}\n`])
    assert.match(
      stderr,
      /pip install "\$\(spoold python-library\)"[\s\S]*from spoold import Tasks[\s\S]*SPOOLD_ENQUEUE_TO/,
    )
    assert.equal((await inProcess(['python-library', 'flask', 'sentry'])).stdout, `${WHEEL}[flask,sentry]\n`)
    const wrong = await inProcess(['python-library', 'flak'])
    assert.equal(wrong.code, 64)
    assert.match(wrong.stderr, /expected flask, django, sentry, datadog, got "flak"/)
  })

  it('is installed without a network, and nothing is built in its directory', {
    skip: skipUnless('python3-venv'),
  }, () => {
    const venv = join(workspace(), 'venv')
    execFileSync(PYTHON, ['-m', 'venv', venv])
    const before = readdirSync(dirname(WHEEL))
    const pip = join(venv, 'bin/pip')
    const options = { encoding: 'utf8', env: { ...process.env, PIP_NO_INDEX: '1' }, cwd: '/' } as const
    execFileSync(pip, ['install', '--quiet', '--disable-pip-version-check', WHEEL], options)
    assert.deepEqual(readdirSync(dirname(WHEEL)), before, 'nothing is built there')
    execFileSync(pip, ['check'], options)
    const shown = execFileSync(pip, ['show', '--files', 'spoold'], options)
    assert.match(shown, new RegExp(`^Version: ${VERSION}$`, 'm'))
    for (const file of ['__init__.py', 'py.typed', 'testing.py'])
      assert.ok(shown.includes(`spoold/${file}\n`), file)
    const said = execFileSync(
      join(venv, 'bin/python'),
      ['-c', 'import spoold; print(spoold.__version__)'],
      options,
    )
    assert.equal(said, `${VERSION}\n`)
    const listed = execFileSync(join(venv, 'bin/python'), ['-c', METADATA], options)
    assert.deepEqual(JSON.parse(listed), ['datadog', 'django', 'flask', 'sentry'])
  })

  it('has each file of the library, and the version of spoold', () => {
    const code = `import json, zipfile; print(json.dumps(sorted(zipfile.ZipFile(${JSON.stringify(WHEEL)}).namelist())))`
    const names: string[] = JSON.parse(runPython(['-c', code], {}))
    const files = readdirSync(PYTHON_LIBRARY, { recursive: true, withFileTypes: true })
      .filter(entry => entry.isFile() && !entry.name.endsWith('.pyc'))
      .map(({ parentPath, name }) => join(parentPath, name).slice(PYTHON_LIBRARY.length + 1))
    const own = ['METADATA', 'RECORD', 'WHEEL'].map(name => `spoold-${VERSION}.dist-info/${name}`)
    assert.deepEqual(names, [...files, ...own].sort())
    assert.match(
      readFileSync(join(PYTHON_LIBRARY, 'spoold/__init__.py'), 'utf8'),
      new RegExp(`^__version__ = '${VERSION}'$`, 'm'),
    )
  })

  it('has integrations that use nothing of the library that docs/python-tasks.md does not name', () => {
    const manual = readFileSync(join(ROOT, 'docs/python-tasks.md'), 'utf8')
    const contrib = join(PYTHON_LIBRARY, 'spoold/contrib')
    const used = new Set<string>()
    for (const file of readdirSync(contrib, { recursive: true, encoding: 'utf8' }).filter(name =>
      name.endsWith('.py'),
    )) {
      const code = readFileSync(join(contrib, file), 'utf8').replaceAll(
        /^if TYPE_CHECKING:\n(?: .*\n|\n)+/gm,
        '',
      )
      // a dot for each directory up to the library's
      const dots = '\\.'.repeat(file.split('/').length + 1)
      for (const [, module, names = ''] of code.matchAll(
        new RegExp(`^ *from ${dots}(\\w*) import (.+)$`, 'gm'),
      ))
        for (const name of names.split(', ')) used.add(module === '' ? name : `${module}.${name}`)
    }
    assert.ok(
      used.has('utils.own_trace') && used.has('middleware') && used.has('destination.places_in'),
      [...used].join(' '),
    )
    const page = new Set(manual.match(/\w+/g))
    for (const each of used) {
      const [module = '', name] = each.split('.')
      assert.ok(
        name === undefined ? page.has(module) : page.has(name) && manual.includes(`spoold.${module}.`),
        `${each} is not in docs/python-tasks.md`,
      )
    }
  })

  it('has a library that loads no module before it is used', { skip: skipUnless('python3') }, () => {
    const code = `
import sys
import spoold
spoold.Tasks().add(lambda: 0, 'a')
print(*sorted(set(sys.modules) & {'asyncio', 'logging', 'typing', 'threading', 'hashlib', 'dataclasses', 'spoold.run', 'spoold.engine',
    'spoold.memory', 'spoold.testing', 'spoold.logs', 'spoold.under_uwsgi', 'zoneinfo', 'pwd'}))`
    const before = runPython(['-S', '-c', 'import sys; print(*sorted(sys.modules))'], {}).trim().split(' ')
    const loaded = runPython(['-S', '-c', code], pythonEnv()).trim().split(' ')
    assert.deepEqual(
      loaded.filter(name => name !== '' && !before.includes(name)),
      [],
    )
  })
})

const METADATA = `
import importlib.metadata, json
print(json.dumps(sorted(importlib.metadata.metadata('spoold').get_all('Provides-Extra'))))`

const TASKS = `
import asyncio, os, sys
from datetime import timedelta
from spoold import Batch, Engine, MemoryBroker, RetryException, Tasks, current_job, signals
from spoold.testing import fake
import spoold.uwsgi, uwsgi
assert uwsgi.opt['spooler'] is not None
tasks = Tasks(max_retries=2)
def journal(line):
    with open(os.environ['JOURNAL'], 'a') as file: file.write(line + '\\n')
@signals.job_finished.connect
def finished(namespace, job, **kwargs): journal('%s %s' % (job.task_name, job.status.name))
@tasks.task(name='add')
def add(a, b=0): journal('%d' % (a + b))
@tasks.task(name='co')
async def co():
    await asyncio.sleep(0)
    if current_job().attempt == 1: raise RetryException('again', at=__import__('datetime').datetime(2000, 1, 1))
    journal('co %s' % current_job().task_name)
if __name__ == '__main__':
    batch = Batch()
    batch.schedule(add, 1, b=2); batch.schedule(co); batch.with_options(id='once', body=b'x').schedule(add, 4)
    print(len(tasks.schedule_batch(batch)))
    with fake(tasks) as kit:
        tasks.schedule(co)
        print(len(kit.drain(future=True)))
    spin = Engine(MemoryBroker())
    spin.attach_tasks(tasks)
    spin.schedule('co'); spin.schedule('add', 1)
    spin.start_workers(number=3, stop_when_queue_empty=True)
`

describe('versions of Python', () => {
  for (const version of ['2.7', '3.6'] as const)
    it(`${version} is too old, and the message says what to do`, {
      skip: skipUnless(`python${version}`),
    }, async () => {
      const words = [
        '--drain',
        '--spooler',
        spoolDirectory(),
        '--python',
        python(version),
        '--import',
        'tasks',
      ]
      const { code, stderr } = await spoold(words)
      assert.equal(code, 1, stderr)
      assert.match(
        stderr,
        /^Python [\d.]+ is too old: expected 3\.7 or later\. Name one with python = PATH, or with virtualenv = DIR$/m,
      )
      assert.doesNotMatch(stderr, /Traceback|SyntaxError/)
    })

  for (let minor = 7; minor <= 14; minor++) {
    const version: Version = `3.${minor}`
    it(`${version} runs the library from its wheel, and the host`, {
      skip: skipUnless(`python${version}`),
    }, async () => {
      const spool = spoolDirectory()
      const file = join(dirname(spool), 'shop.py')
      const journal = join(dirname(spool), 'journal')
      writeFileSync(file, TASKS)
      const ran = spawnSync(python(version), ['-W', 'error', file], {
        encoding: 'utf8',
        env: { ...process.env, PYTHONPATH: WHEEL, SPOOLD_ENQUEUE_TO: spool, JOURNAL: journal },
      })
      assert.equal(ran.status, 0, ran.stderr)
      assert.equal(ran.stdout, '3\n2\n')
      assert.equal(leftIn(spool).length, 3)
      const words = ['--drain', '--spooler', spool, '--python', python(version), '--import', file]
      const { code, stderr } = await spoold(words, {
        env: { JOURNAL: `${journal}-host`, PYTHONDONTWRITEBYTECODE: '1' },
      })
      assert.equal(code, 0, stderr)
      assert.deepEqual(leftIn(spool), [])
      const lines = readFileSync(`${journal}-host`, 'utf8').trim().split('\n').sort()
      assert.deepEqual(lines, [
        '3',
        '4',
        'add SUCCEEDED',
        'add SUCCEEDED',
        'co SUCCEEDED',
        'co WAITING',
        'co co',
      ])
    })
  }
})

describe('the types of Python’s library', { skip: skipUnless('venv:mypy') }, () => {
  const mypy = (...args: string[]) => {
    const { stdout, stderr } = spawnSync(
      join(virtualenv('mypy'), 'bin/mypy'),
      ['--strict', '--cache-dir', CACHE, ...args],
      {
        encoding: 'utf8',
        env: { ...process.env, MYPYPATH: PYTHON_LIBRARY },
        cwd: '/',
      },
    )
    assert.equal(stderr, '')
    return stdout
  }
  const CACHE = workspace()

  it('pass mypy --strict', () => {
    assert.match(mypy(join(PYTHON_LIBRARY, 'spoold')), /^Success: no issues found in \d+ source files\n$/)
  })

  it('let mypy name each mistake of a program, and nothing else', () => {
    const file = join(FIXTURES, 'named/python/typed.py')
    const wanted = readFileSync(file, 'utf8')
      .split('\n')
      .flatMap((line, i) => [...line.matchAll(/# error: ([\w-]+)$/g)].map(([, code]) => `${i + 1} ${code}`))
    const found = [...mypy(file).matchAll(/typed\.py:(\d+): error: .*\[([\w-]+)\]$/gm)].map(
      ([, line, code]) => `${line} ${code}`,
    )
    assert.notDeepEqual(wanted, [])
    assert.deepEqual(found, wanted)
  })
})
