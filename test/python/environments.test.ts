import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { TestProcess } from '../helpers/process.js'
import { ENVIRONMENTS, PYTHON, python } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { ROOT, workspace } from '../helpers/workspace.js'

const HERE = join(ROOT, 'test/python')
const COMPLETE = 'spoold-test-complete'

describe('the interpreter of a version', () => {
  it("is the newest of pyenv's if Debian has none, and Debian's path if nobody has one", () => {
    const root = workspace()
    const versions = ['3.0.1', '3.0.2', '3.0.10', '3.01.99', '2.3.0']
    for (const version of versions) {
      const bin = join(root, 'versions', version, 'bin')
      mkdirSync(bin, { recursive: true })
      writeFileSync(join(bin, 'python3.0'), '')
    }
    const before = process.env.PYENV_ROOT
    process.env.PYENV_ROOT = root
    try {
      assert.equal(python('3.0'), join(root, 'versions/3.0.10/bin/python3.0'))
      assert.equal(python('3.00'), '/usr/bin/python3.00')
    } finally {
      if (before === undefined) delete process.env.PYENV_ROOT
      else process.env.PYENV_ROOT = before
    }
  })

  it('is never taken from the PATH by a test or a benchmark', () => {
    const starts =
      /(?:TestProcess|[sS]pawn(?:Sync)?|exec(?:File)?(?:Sync)?)\(\s*['"`]python|\[\s*['"]python3['"],/
    const sources = ['test', 'bench'].flatMap(room =>
      readdirSync(join(ROOT, room), { recursive: true, encoding: 'utf8' })
        .filter(name => /\.(ts|mjs)$/.test(name))
        .map(name => join(room, name)),
    )
    assert.deepEqual(
      sources.filter(name => starts.test(readFileSync(join(ROOT, name), 'utf8'))),
      [],
    )
  })
})

it('each environment asks for exact versions', () => {
  assert.notEqual(ENVIRONMENTS.size, 0)
  for (const name of ENVIRONMENTS.keys())
    for (const line of readFileSync(join(HERE, `${name}.txt`), 'utf8')
      .trim()
      .split('\n'))
      assert.match(line, /^(#.*|[\w.-]+(\[[\w,-]+\])?==[\w.]+)?$/, name)
})

/** A directory with the programs and other requirements. */
class Place {
  readonly directory = workspace()
  readonly venvs = join(this.directory, 'venvs')

  constructor(requirements: Readonly<Record<string, string>>) {
    for (const name of ['environments.mjs', 'install.mjs'])
      cpSync(join(HERE, name), join(this.directory, name))
    for (const [name, text] of Object.entries(requirements)) this.ask(name, text)
  }

  ask(name: string, text: string): void {
    writeFileSync(join(this.directory, `${name}.txt`), text)
  }

  start(...args: string[]): TestProcess {
    return new TestProcess(process.execPath, [join(this.directory, 'install.mjs'), ...args], {
      cwd: '/',
      env: { SPOOLD_TEST_VENVS: this.venvs, PIP_NO_INDEX: '1' },
    })
  }

  async install(...args: string[]): Promise<{ code: number | null; output: string }> {
    const installing = this.start(...args)
    return { code: await installing.code(120_000), output: installing.output }
  }

  made(): string[] {
    return readdirSync(this.venvs).filter(name => existsSync(join(this.venvs, name, COMPLETE)))
  }
}

describe('install.mjs', { skip: skipUnless('python3-venv'), concurrency: 3 }, () => {
  it('makes a missing environment once, with the build variables of its file', async () => {
    const place = new Place({ a: '# build PIP_LOG=a.log\n' })
    const first = await place.install()
    assert.equal(first.code, 0, first.output)
    const [name = ''] = place.made()
    assert.match(first.output, new RegExp(`^a: ${join(place.venvs, name)} was made$`, 'm'))
    assert.ok(existsSync(join(place.directory, 'a.log')), 'pip got the build variables of the file')
    const { ino, mtimeMs } = statSync(join(place.venvs, name, 'pyvenv.cfg'))
    assert.deepEqual(await place.install('a'), {
      code: 0,
      output: `a: ${join(place.venvs, name)} is there\n`,
    })
    const now = statSync(join(place.venvs, name, 'pyvenv.cfg'))
    assert.deepEqual([now.ino, now.mtimeMs], [ino, mtimeMs])
  })

  it('makes one environment when two runs start at once, and another one when the file changes', async () => {
    const place = new Place({ a: '' })
    const both = [place.start(), place.start()]
    for (const each of both) assert.equal(await each.code(120_000), 0, each.output)
    assert.equal(place.made().length, 1)
    place.ask('a', '# another\n')
    assert.equal((await place.install()).code, 0)
    assert.equal(place.made().length, 2)
  })

  it('makes a half-made environment anew, and uses nothing of it', async () => {
    const place = new Place({ a: 'no-such-package==1.0\n', b: '' })
    const { code, output } = await place.install()
    assert.equal(code, 1)
    assert.match(output, new RegExp(`^a: ${PYTHON} could not make an environment of .*/a.txt$`, 'm'))
    assert.deepEqual(
      place.made().map(name => name.split('-')[0]),
      ['b'],
      output,
    )
    const half = readdirSync(place.venvs).find(name => /^a-\w+$/.test(name)) ?? ''
    writeFileSync(join(place.venvs, half, 'left'), '')
    assert.equal((await place.install('a')).code, 1)
    assert.ok(!existsSync(join(place.venvs, half, 'left')))
  })

  it('skips an environment whose interpreter is missing, and refuses an unknown name', async () => {
    const place = new Place({ a: '# python 3.0\n' })
    assert.deepEqual(await place.install(), {
      code: 0,
      output: 'a: not made, because there is no /usr/bin/python3.0\n',
    })
    assert.deepEqual(await place.install('b'), { code: 1, output: 'b: expected one of a\n' })
  })
})
