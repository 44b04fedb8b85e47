import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { styleText } from 'node:util'
import stringWidth from 'string-width'
import { fit, widthOf } from '#src/doors/cli/text-width.js'
import { inProcess, spoold } from '../helpers/cli.js'
import { drop, packet } from '../helpers/files.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

const GREEN_DUE = styleText('green', 'due', { validateStream: false })
const NOW = Math.floor(Date.now() / 1000)
const NAME = `uwsgi_spoolfile_on_vm_3895_1_345447121_${NOW - 9}_352286`

/** Returns a spool with a failed task, one in a priority, and values whose columns are more or fewer than their characters. */
function furnished(): string {
  const spool = spoolDirectory()
  mkdirSync(join(spool, '.spoold/records'), { recursive: true, mode: 0o700 })
  mkdirSync(join(spool, '5'))
  const bytes = packet({ to: '日本語のメール', kind: 'mail' })
  bytes[3] = 1 // the state byte announces the record
  drop(spool, NAME, bytes)
  const lastError = `Error: smtp: 接続 refused by mail.example.org ${'while sending '.repeat(9)}\n  at stack`
  writeFileSync(
    join(spool, '.spoold/records', `${NAME}.json`),
    JSON.stringify({ attempts: 2, crashes: 0, lastError }),
  )
  drop(spool, '5/urgent', packet({ to: '👩‍👩‍👧 cafe\u0301', kind: 'x'.repeat(100) }))
  return spool
}

async function lines(
  args: readonly string[],
  columns: number | undefined,
  hasColor = false,
): Promise<string[]> {
  const { stdout, stderr, code } = await inProcess(['ls', ...args], { screen: { columns, hasColor } })
  assert.deepEqual([stderr, code], ['', 0])
  return stdout.trimEnd().split('\n')
}

describe('a listing in a terminal', () => {
  for (const columns of [80, 100, 132, 200])
    for (const args of [[], ['--show', 'to,kind'], ['--vars'], ['--by', 'to,kind']])
      it(`of ${columns} columns wraps nothing: ${args.join(' ')}`, async () => {
        const shown = await lines([...args, furnished()], columns)
        for (const line of shown) assert.ok(stringWidth(line) <= columns, `${stringWidth(line)}: ${line}`)
        if (args[0] !== '--by')
          assert.ok(shown.some(line => line.endsWith(NAME) || line.includes(`${NAME}  `)))
      })

  it('gives a name that does not fit a line of its own, and does not cut it', async () => {
    const shown = await lines([furnished()], 80)
    assert.match(shown[0] ?? '', /^STATE +PRIORITY +DUE IN +AGE +BYTES +FAILED +NOTE$/)
    assert.deepEqual([shown[1], shown[3], shown[5]], ['  NAME', '  5/urgent', `  ${NAME}`])
    assert.match(shown[4] ?? '', /^due .* 2 {2}Error: smtp: 接続 refused .*…$/)
  })

  it('omits columns that are empty, and prints whole names even if it is narrow', async () => {
    const spool = spoolDirectory()
    drop(spool, 'a')
    assert.match((await lines([spool], 80))[0] ?? '', /^STATE +DUE IN +AGE +BYTES +NAME$/)
    assert.ok((await lines([furnished()], 30)).includes(`  ${NAME}`))
    assert.match((await lines([spool], undefined))[0] ?? '', /PRIORITY.*FAILED.*NOTE$/)
  })

  it('aligns characters that take two columns, or none', async () => {
    const shown = await lines(['--show', 'to', '--state', 'due', furnished()], undefined)
    const at = (line = '', text = '') => stringWidth(line.slice(0, line.indexOf(text)))
    assert.equal(at(shown[1], '5/urgent'), at(shown[2], NAME))
    assert.equal(at(shown[0], 'NAME'), at(shown[2], NAME))
  })

  it('has colors only if the terminal can show them', async () => {
    const plain = (await lines([furnished()], 200)).join('\n')
    const painted = (await lines([furnished()], 200, true)).join('\n')
    assert.ok(!plain.includes('\x1b'))
    assert.ok(painted.includes(GREEN_DUE))
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are the colors
    assert.equal(painted.replace(/\x1b\[\d+m/g, '').replace(/\d+ s/g, 'N s'), plain.replace(/\d+ s/g, 'N s'))
  })
})

describe('a text that is cut', () => {
  for (const [text, columns, expected] of [
    ['short', 5, 'short'],
    ['longer', 5, 'long…'],
    ['日本語', 6, '日本語'],
    ['日本語', 5, '日本…'],
    ['日本語', 4, '日…'],
    ['e\u0301e\u0301e\u0301', 2, 'e\u0301…'],
    ['👩‍👩‍👧👩‍👩‍👧', 3, '👩‍👩‍👧…'],
  ] as const)
    it(`${text} in ${columns} columns is ${expected}`, () => {
      assert.equal(fit(text, columns), expected)
      assert.ok(widthOf(fit(text, columns)) <= columns)
    })
})

/** Runs a command in a pseudo-terminal of 80 columns. */
const PTY = `
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
while True:
    try:
        part = os.read(fd, 65536)
    except OSError:
        break
    if not part:
        break
    sys.stdout.buffer.write(part)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`

describe('the built command in a real terminal', { skip: skipUnless('python3') }, () => {
  const inTerminal = (env: NodeJS.ProcessEnv, ...args: string[]) => {
    const { stdout, status } = spawnSync(PYTHON, ['-c', PTY, process.execPath, BIN, ...args], {
      encoding: 'utf8',
      timeout: 60_000,
      env: { PATH: process.env.PATH, TERM: 'xterm', LC_ALL: 'C.UTF-8', ...env },
    })
    assert.equal(status, 0, stdout)
    return stdout.replaceAll('\r', '')
  }

  it('knows its width, and has colors unless NO_COLOR or a dumb terminal forbids them', () => {
    const spool = furnished()
    const painted = inTerminal({}, 'ls', '--show', 'to', spool)
    assert.ok(painted.includes(GREEN_DUE) && painted.includes('日本語'))
    assert.ok(painted.includes(`\n  ${NAME}\n`))
    for (const env of [{ NO_COLOR: '1' }, { TERM: 'dumb' }, { FORCE_COLOR: '0' }]) {
      const plain = inTerminal(env, 'ls', '--show', 'to', spool)
      assert.ok(!plain.includes('\x1b'), JSON.stringify(env))
      for (const line of plain.split('\n')) assert.ok(stringWidth(line) <= 80)
    }
    assert.ok(inTerminal({ COLUMNS: '200', NO_COLOR: '1' }, 'ls', spool).includes(`  ${NAME}  Error`))
    assert.ok(
      inTerminal({}, '--help')
        .split('\n')
        .every(line => line.length <= 80),
    )
  })

  it('has no colors in a pipe unless FORCE_COLOR is set', async () => {
    const spool = furnished()
    const plain = await spoold(['ls', spool], { env: { FORCE_COLOR: undefined, NO_COLOR: undefined } })
    assert.ok(!plain.stdout.includes('\x1b') && plain.stdout.includes(`  ${NAME}  Error`))
    const forced = await spoold(['ls', spool], { env: { FORCE_COLOR: '1', NO_COLOR: undefined } })
    assert.ok(forced.stdout.includes(GREEN_DUE))
    const refused = await spoold(['ls', spool], { env: { FORCE_COLOR: '1', NO_COLOR: '1' } })
    assert.ok(!refused.stdout.includes('\x1b'))
  })
})
