import assert from 'node:assert/strict'
import {
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { describe, it } from 'node:test'
import { HEADER_BYTES } from '#src/formats/protocol/header.js'
import { parseVars, toPairs } from '#src/formats/protocol/vars.js'
import { besidesIdle } from '../helpers/cli.js'
import { leftIn } from '../helpers/files.js'
import { allPages, Page } from '../helpers/markdown.js'
import { TestProcess } from '../helpers/process.js'
import { BIN, workspace } from '../helpers/workspace.js'

interface Done {
  /** What each command printed, in order; those of a pipe are one. */
  readonly printed: readonly string[]
  /** The spool in which the page's commands stored tasks. */
  readonly spool: string
}

/** Asserts for each page what its text says about its commands. */
const SAID: Readonly<Record<string, (done: Done) => void>> = {
  'README.md': ({ printed, spool }) => {
    const [joe, ls, drain, check, jane, jack, json] = printed
    const path = pathIn(spool, joe)
    assert.match(ls ?? '', row('due', basename(path)))
    assert.match(drain ?? '', new RegExp(`${basename(path)}: a mail to joe\n`))
    assert.match(drain ?? '', /^drained: 1 done$/m)
    assert.ok(!existsSync(path), 'the task of joe has run, but its file is still there')
    assert.equal(check, 'app.ini: the configuration is good (1 spool), 0 warnings\n')
    assert.deepEqual(taskAt(pathIn(spool, jane)).vars, { to: 'jane', at: '2145916800' })
    assert.deepEqual(taskAt(pathIn(spool, jack)), { vars: { to: 'jack' }, body: 'Dear Jack, …' })
    const rows = (json ?? '').trim().split('\n')
    assert.deepEqual(
      rows.map(each => JSON.parse(each)).map(({ state, name, due }) => [state, name, state === 'due' || due]),
      [
        ['due', basename(pathIn(spool, jack)), true],
        ['waiting', basename(pathIn(spool, jane)), '2038-01-01T00:00:00.000Z'],
      ],
    )
  },
  'docs/commands.md': ({ printed, spool }) => {
    const [mkdir, enqueue, ls, hold, held, kick, rm] = printed
    const [name = ''] = leftIn(spool)
    assert.deepEqual([mkdir, enqueue], ['', ''])
    assert.match(ls ?? '', row('waiting', name))
    assert.equal(hold, `held spool/${name}\n`)
    assert.match(held ?? '', row('held', name))
    assert.equal(kick, `kicked spool/${name}\n`)
    assert.equal(rm, 'spoold: no task fits\n') // the task is less than two hours old
    assert.equal(leftIn(spool).length, 1)
  },
  'docs/enqueue.md': ({ printed, spool }) => {
    const [joe, jane, jack, lines = ''] = printed
    const enqueuedAt = statSync(pathIn(spool, joe)).mtimeMs / 1000
    assert.deepEqual(taskAt(pathIn(spool, joe)).vars, { to: 'joe' })
    const { at, picture, ...rest } = taskAt(pathIn(spool, jane)).vars
    assert.deepEqual(rest, { to: 'jane' })
    assert.match(picture ?? '', /^Name:.*\nUmask:/)
    assert.ok(Number(at) >= Math.floor(enqueuedAt) + 300, `in 5 minutes: ${at}`)
    assert.deepEqual(taskAt(pathIn(spool, jack)).body, 'Dear Jack, …')
    const stored = lines
      .trim()
      .split('\n')
      .map(path => taskAt(path).vars)
    assert.deepEqual(stored, [
      { to: 'joe', kind: 'mail' },
      { to: 'jane', n: '2', kind: 'mail' },
    ])
  },
  'docs/handlers.md': ({ printed: [test = ''] }) => {
    assert.match(test, /^[#ℹ] pass 2$/m)
    assert.match(test, /^[#ℹ] fail 0$/m)
  },
  'docs/scaling.md': ({ printed: [, , all = '', burst = '', seconds = ''] }) => {
    assert.match(all, /^spare +1-1 /m)
    assert.match(all, /^fixed +8-8 /m)
    assert.match(burst, /^latency +\d-8 /m)
    assert.equal(seconds.split('\n')[1], 'spare2,1,1,0,70,400')
  },
  'docs/spool-format.md': ({ printed, spool }) => {
    assert.match(
      printed.at(-1) ?? '',
      /^spool\/to-joe: due, .*, 18 bytes\n {2}"to" = "joe"\n {2}body: "hello" \(5 bytes\)\n$/,
    )
    assert.deepEqual(leftIn(spool), ['to-joe'])
  },
}

/** Returns the path that a command printed first. */
function pathIn(spool: string, printed = ''): string {
  const path = printed.split('\n').find(line => line.startsWith(`${realpathSync(spool)}/`))
  assert.ok(path, `a path in ${spool}: ${printed}`)
  return path
}

function taskAt(path: string): { vars: Record<string, string>; body: string } {
  const bytes = readFileSync(path)
  const end = HEADER_BYTES + bytes.readUInt16LE(1)
  const vars = parseVars(bytes.toString('latin1'), HEADER_BYTES, end)
  assert.ok('cuts' in vars)
  const pairs = toPairs(vars).map(pair => pair.map(String))
  return { vars: Object.fromEntries(pairs), body: bytes.toString('utf8', end) }
}

/** Returns the pattern of a row of `ls`. */
const row = (state: string, name: string) => new RegExp(`^${state} .* ${name} *$`, 'm')

/** The line that is printed after each command. */
const END = '--- end of a command'
const SHELL = new Set(['sh', 'bash', 'shell', 'console'])

describe('the commands in the docs', { concurrency: 3 }, () => {
  for (const page of allPages()) {
    const shell = page.blocks.filter(({ language }) => SHELL.has(language))
    if (shell.length === 0) continue

    it(`${page.name}: every block with a command says whether it can run by itself`, () => {
      const unmarked = shell.filter(({ marks }) => !marks.includes('run') && !marks.includes('attended'))
      assert.deepEqual(
        unmarked.map(({ text }) => text),
        [],
      )
    })

    const runnable = shell.filter(({ marks }) => marks.includes('run')).map(({ text }) => text)
    if (runnable.length > 0)
      it(`${page.name}: commands that can run by themselves do what the page says`, async () => {
        const done = await runAll(page, runnable)
        const check = SAID[page.name]
        assert.ok(check, `say above what the commands of ${page.name} have to do`)
        check(done)
      })
  }

  it('run by themselves on those pages alone for which this test knows what they print', () => {
    const runnable = allPages().filter(({ blocks }) => blocks.some(({ marks }) => marks.includes('run')))
    assert.deepEqual(runnable.map(({ name }) => name).sort(), Object.keys(SAID).sort())
  })
})

describe('the pages of the integrations', () => {
  const pages = ['docs/flask-and-django.md', 'docs/mail-errors-logs.md'].map(name => new Page(name))

  it('have a complete application of at most 25 lines in each section', () => {
    const applications = pages
      .flatMap(({ text }) => text.split(/^## /m))
      .map(section => {
        const files = [...section.matchAll(/^```python file=\S+\n(.*?)^```$/gms)]
        const lines = files.map(([, code = '']) => code.trimEnd().split('\n').length)
        return { title: section.split('\n', 1)[0], lines: lines.reduce((sum, count) => sum + count, 0) }
      })
      .filter(({ lines }) => lines > 0)
    assert.deepEqual(
      applications.map(({ title }) => title),
      ['Flask', 'Django', 'Mail in the background', 'Sentry', 'Datadog', 'Logging'],
    )
    assert.deepEqual(
      applications.filter(({ lines }) => lines > 25),
      [],
    )
  })

  it('have at most 3,000 words together', () => {
    const words = pages.flatMap(({ text }) => text.trim().split(/\s+/)).length
    assert.ok(words <= 3000, `${words}`)
  })
})

/** Runs one block after the other in an empty directory with the page's `file=` blocks, and with `spoold` on the PATH. */
async function runAll(page: Page, scripts: readonly string[]): Promise<Done> {
  const directory = workspace()
  const bin = join(directory, '.bin')
  mkdirSync(bin)
  symlinkSync(BIN, join(bin, 'spoold'))
  for (const { marks, text } of page.blocks) {
    const name = /^file=(.*)$/.exec(marks.join(' '))?.[1]
    if (name !== undefined && !name.startsWith('/')) writeFileSync(join(directory, name), text)
  }
  const commands = scripts.flatMap(script => script.trim().split('\n'))
  const script = commands.map(command => `${command}\necho '${END}'`).join('\n')
  const shell = new TestProcess('sh', ['-eu', '-c', `exec 2>&1\n${script}`], {
    cwd: directory,
    // With NODE_TEST_CONTEXT, which says that this is a test, "node --test" would run nothing.
    env: { PATH: `${bin}:${process.env.PATH}`, NODE_TEST_CONTEXT: undefined },
  })
  const code = await shell.code()
  const printed = besidesIdle({ stderr: shell.output }).stderr.split(`${END}\n`) // no daemon runs there
  assert.equal(code, 0, `${commands[printed.length - 1]}:\n${shell.output}`)
  return { printed: printed.slice(0, -1), spool: join(directory, 'spool') }
}
