import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { besidesIdle, inProcess, spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { BIN, spoolDirectory, workspace } from '../helpers/workspace.js'

const enqueue = async (spool: string, args: readonly string[], input?: string | Buffer) =>
  besidesIdle(await inProcess(['enqueue', '--spooler', spool, ...args], input === undefined ? {} : { input }))

describe('spoold enqueue, into a directory that may be a misspelt name', () => {
  const into = (spool: string, args: readonly string[], input = '') =>
    inProcess(['enqueue', '--spooler', spool, ...args], { input })
  const idle = (spool: string) => `no daemon runs ${spool}: its tasks wait for one\n`

  it('says that it made the directory and that no daemon runs it, even with --quiet', async () => {
    const directory = workspace()
    for (const [name, args] of [
      ['spol', ['a=b']],
      ['other', ['a=b', '--quiet']],
      ['many', ['--json', '-', '--quiet']],
    ] as const) {
      const spool = join(directory, name)
      const made = await into(spool, args, '{"a":1}\n{"a":2}\n')
      const text = `spoold: made the spool directory ${spool}; ${idle(spool)}`
      assert.deepEqual([made.code, made.stderr], [0, text])
      const again = await into(spool, args, '{"a":1}\n')
      assert.deepEqual([again.code, again.stderr], [0, `spoold: ${idle(spool)}`])
    }
  })

  it('refuses a link to a directory whose name is not UTF-8, and does not advise to remove the link', async () => {
    const directory = workspace()
    const named = Buffer.from(`${directory}/\xe4`, 'latin1')
    mkdirSync(named)
    symlinkSync(named, join(directory, 'link'))
    const { code, stderr } = await into(join(directory, 'link'), ['a=b'])
    assert.match(stderr, /\/link cannot be used: it is a link to a directory whose name is not UTF-8\n$/)
    assert.equal(code, 1)
    assert.deepEqual(readdirSync(named), [])
  })

  it('says nothing while a daemon runs the spool, and warns once that daemon is dead', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, isGroup: true })
    assert.deepEqual((await into(spool, ['a=b', '--quiet'])).stderr, '')
    process.kill(-daemon.pid, 'SIGKILL')
    await daemon.exited
    assert.deepEqual((await into(spool, ['a=b', '--quiet'])).stderr, `spoold: ${idle(spool)}`)
  })

  it('says so for each spool of an ini, even when the task is refused', async () => {
    const directory = workspace()
    const ini = join(directory, 'app.ini')
    writeFileSync(ini, `[uwsgi]\nspooler = ${directory}/one\nspooler = ${directory}/two\n`)
    const { stderr } = await inProcess(['enqueue', '--ini', ini, 'a=b', 'spooler=/nonexistent'])
    assert.match(
      stderr,
      /made the spool directory \S+\/one\n.*made the spool directory \S+\/two\n.*SPOOLER_UNKNOWN/s,
    )
  })
})

describe('spoold enqueue refuses', { concurrency: 4 }, () => {
  async function refuses(args: readonly string[], message: RegExp, input?: string | Buffer) {
    const spool = join(workspace(), 'never-made')
    const { code, stdout, stderr } = await enqueue(spool, args, input)
    assert.deepEqual([code, stdout], [64, ''])
    assert.match(stderr, message)
    assert.equal(existsSync(spool), false)
  }

  it('an empty task, unless it has a body or comes as JSON', async () => {
    await refuses(
      [],
      /\[USAGE\] the task is empty: give it key=value pairs, --body FILE or --json FILE\n$/,
      '{"a":1}',
    )
    await refuses(['--at', '+5m', '--id', 'x'], /the task is empty/)
    const spool = spoolDirectory()
    assert.equal((await enqueue(spool, ['--body', '-'], 'BODY')).code, 0)
    assert.equal((await enqueue(spool, ['--json', '-'], '{}\n')).code, 0)
    assert.equal(leftIn(spool).length, 2)
  })

  it('a time that cannot be read, with a hint when it looks like milliseconds', async () => {
    await refuses(
      ['a=b', '--at', '1700000000000'],
      /--at: expected .*got "1700000000000".*are these milliseconds\?/,
    )
    await refuses(['at=1795300000000'], /\[REQUEST_INVALID\] at must be .*are these milliseconds\?/)
    await refuses(['a=b', '--at', 'tomorrow 9'], /--at: expected epoch seconds, .*got "tomorrow 9"\n$/)
    await refuses(['at=next friday 3'], /\[REQUEST_INVALID\] at must be .*got "next friday 3"\n$/)
    await refuses(['--json', '-'], /line 1: at must be .*got "tomorrow 9"\n$/, '{"at":"tomorrow 9"}\n')
  })

  it('arguments that are not UTF-8, wherever they stand', () => {
    const spool = join(workspace(), 'never-made')
    const bad = (script: string) =>
      spawnSync('bash', ['-c', script, 'bash', process.execPath, BIN, spool], { encoding: 'utf8' })
    for (const args of [
      `--spooler "$3" bin=$'\\xff\\xfe'`,
      `--spooler "$3" a=b --id $'\\xff'`,
      `--spooler "$3"$'\\xff' a=b`,
    ]) {
      const { status, stdout, stderr } = bad(`exec "$1" "$2" enqueue ${args}`)
      assert.deepEqual([status, stdout], [64, ''], args)
      assert.match(
        stderr,
        /^spoold: \[USAGE\] the argument "[^\n]*" is not UTF-8, and would be changed[^\n]*\n$/,
      )
    }
    assert.match(bad(`exec "$1" "$2" enqueue --spooler "$3" bin=$'\\xff'`).stderr, /write bin=@FILE\n$/)
    assert.equal(existsSync(spool), false)
    const other = spawnSync('bash', [
      '-c',
      `exec "$1" "$2" rm --key a=$'\\xff' "$3"`,
      'bash',
      process.execPath,
      BIN,
      '.',
    ])
    assert.equal(other.status, 64)
    assert.doesNotMatch(other.stderr.toString(), /@FILE/, 'only pairs of enqueue are read from files')
  })

  it('a path below a working directory whose name is not UTF-8', () => {
    const script = `mkdir $'not\\xff' && cd $'not\\xff' && exec "$1" "$2" enqueue --spooler . a=b`
    const cwd = workspace()
    const { status, stderr } = spawnSync('bash', ['-c', script, 'bash', process.execPath, BIN], { cwd })
    assert.equal(status, 64)
    assert.match(
      String(stderr),
      /^spoold: \[USAGE\] the name of the working directory, "[^\n]*\/not\ufffd", is not UTF-8/,
    )
    assert.equal(readdirSync(cwd).length, 1, 'no directory with another name is created')
  })

  it('a value from a file that has no end, or that is longer than 65535 bytes', async () => {
    const long = join(workspace(), 'long')
    writeFileSync(long, Buffer.alloc(65_536))
    for (const file of ['/dev/zero', long])
      await refuses(
        [`a=@${file}`],
        new RegExp(`the value of "a", the file ${file}, takes more than 65535 bytes`),
      )
  })

  it('JSON whose values would be changed: bad UTF-8, rounded numbers, half surrogate pairs, bad base64', async () => {
    await refuses(
      ['--json', '-'],
      /line 1: it is not UTF-8; write bytes as/,
      Buffer.from('{"a":"\xff"}\n', 'latin1'),
    )
    for (const number of ['9007199254740993', '0.12345678901234567890', '1e400', '1e-400'])
      await refuses(
        ['--json', '-'],
        /line 1: the value of "a" is a number that would be rounded; write it as a string/,
        `{"a":${number}}\n`,
      )
    await refuses(['--json', '-'], /line 1: "a" has half of a surrogate pair/, '{"a":"\\ud800"}\n')
    for (const base64 of ['AA=A', 'A', 'AAA==', '?', 'AA\n', 'AAAAA', 'AA AA'])
      await refuses(
        ['--json', '-'],
        /line 1: the value of "a" is not base64, got /,
        `${JSON.stringify({ a: { base64 } })}\n`,
      )
  })
})

describe('spoold enqueue keeps', () => {
  const stored = async (args: readonly string[], input?: string | Buffer) => {
    const spool = spoolDirectory()
    const { code, stdout, stderr } = await enqueue(spool, args, input)
    assert.deepEqual([code, stderr], [0, ''])
    return readFileSync(stdout.trim())
  }

  it('U+FFFD, which usually stands for what is not UTF-8', async () => {
    assert.deepEqual(await stored(['a=\ufffd']), packet({ a: '\ufffd' }))
    assert.deepEqual(await stored(['--json', '-'], '{"a":"\ufffd"}'), packet({ a: '\ufffd' }))
  })

  it('U+2028 and U+2029 in JSON, where they do not end a line', async () => {
    const a = 'one\u2028two\u2029three'
    assert.deepEqual(await stored(['--json', '-'], `{"a":"${a}"}\n`), packet({ a }))
  })

  it('the bytes of base64 in either alphabet, padded or not', async () => {
    const bytes = Buffer.from([251, 255, 254])
    for (const base64 of ['+//+', '-__-']) {
      const line = JSON.stringify({
        a: { base64 },
        b: { base64: 'AA' },
        c: { base64: 'AA==' },
        d: { base64: '' },
      })
      assert.deepEqual(
        await stored(['--json', '-'], line),
        packet({ a: bytes, b: Buffer.of(0), c: Buffer.of(0), d: '' }),
      )
    }
  })
})

describe('spoold enqueue --ini with a priority', () => {
  const warning = /^spoold: tasks with a priority are not run here: \S+app\.ini lacks spooler-ordered = true/

  async function into(ini: string, args: readonly string[], input = '') {
    const directory = workspace()
    const file = join(directory, 'app.ini')
    writeFileSync(file, `[uwsgi]\nspooler = ${spoolDirectory()}\n${ini}`)
    return besidesIdle(await inProcess(['enqueue', '--ini', file, ...args], { input }))
  }

  it('warns once that tasks with a priority are not run without spooler-ordered', async () => {
    for (const args of [
      ['a=b', '--priority', '5'],
      ['a=b', 'priority=5'],
    ]) {
      const { code, stderr } = await into('', args)
      assert.equal(code, 0)
      assert.match(stderr, warning)
    }
    const many = await into('', ['--json', '-'], '{"a":1}\n{"priority":2}\n{"priority":3}\n')
    assert.match(many.stderr, warning)
    assert.equal(many.stderr.split('\n').length, 2)
  })

  it('does not warn with spooler-ordered, for an empty priority, or when no ini is given', async () => {
    assert.equal((await into('spooler-ordered = true\n', ['a=b', '--priority', '5'])).stderr, '')
    assert.equal((await into('', ['a=b', 'priority='])).stderr, '')
    assert.equal((await enqueue(spoolDirectory(), ['a=b', '--priority', '5'])).stderr, '')
  })
})

it('spoold enqueue says how to write a value that begins with @', async () => {
  const { code, stderr } = await enqueue(spoolDirectory(), ['to=@joe'])
  assert.equal(code, 1)
  assert.match(
    stderr,
    /the value of to, the file joe cannot be read: ENOENT[^\n]*; for the text "@joe" write to=@@joe\n$/,
  )
})

it('--max-age, --older-than and --newer-than require a unit', async () => {
  const spool = spoolDirectory()
  for (const args of [
    ['purge', '--max-age', '7'],
    ['ls', '--older-than', '7'],
    ['rm', '--newer-than', '7'],
  ]) {
    const { code, stderr } = await inProcess([...args, spool])
    assert.equal(code, 64)
    assert.match(stderr, /--\S+: expected a unit, such as 7s or 7d, got "7"\n$/)
  }
  execFileSync(process.execPath, [BIN, 'purge', '--max-age', '1h30m', spool])
})

describe('spoold enqueue as root', { skip: skipUnless('root'), concurrency: 4 }, () => {
  const USER = 65_533
  const ownersOf = (path: string) => [statSync(path).uid, statSync(path).gid]
  const enqueue = async (spool: string, args: readonly string[]) =>
    besidesIdle(await spoold(['enqueue', '--spooler', spool, ...args]))

  /** A spool of the user, in a directory that he may enter. */
  function usersSpool(): string {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    chownSync(spool, USER, USER)
    return spool
  }

  it('makes the task file, the priority directory and .spoold as the owner of the spool', async () => {
    const spool = usersSpool()
    const { code, stdout, stderr } = await enqueue(spool, ['a=b', '--priority', '3', '--id', 'x'])
    assert.deepEqual([code, stderr], [0, ''])
    for (const path of [stdout.trim(), join(spool, '3'), join(spool, '.spoold')])
      assert.deepEqual(ownersOf(path), [USER, USER], path)
  })

  it('reads the files that its arguments name with the rights of root', async () => {
    const spool = usersSpool()
    const secret = join(workspace(), 'secret')
    writeFileSync(secret, '{"n":1}\n', { mode: 0o600 })
    for (const args of [['a=b', '--body', secret], [`a=@${secret}`], ['--json', secret]]) {
      const { code, stdout, stderr } = await enqueue(spool, args)
      assert.deepEqual([code, stderr], [0, ''], args.join(' '))
      assert.deepEqual(ownersOf(stdout.trim()), [USER, USER])
    }
  })

  it('stores the task as the user of the ini, for whom it also makes the spool', async () => {
    const directory = workspace()
    chmodSync(directory, 0o755)
    const ini = join(directory, 'app.ini')
    writeFileSync(ini, `[uwsgi]\nspooler = ${directory}/spool\nuid = ${USER}\ngid = ${USER}\n`)
    const { code, stdout, stderr } = await spoold(['enqueue', '--ini', ini, 'a=b'])
    const made = join(directory, 'spool')
    const text = `spoold: made the spool directory ${made}; no daemon runs ${made}: its tasks wait for one\n`
    assert.deepEqual([code, stderr], [0, text])
    for (const path of [stdout.trim(), made]) assert.deepEqual(ownersOf(path), [USER, USER])
  })

  it("stays root when the spool is root's and no other user is configured", async () => {
    const spool = spoolDirectory()
    const { stdout } = await enqueue(spool, ['a=b'])
    assert.deepEqual(ownersOf(stdout.trim()), [0, 0])
  })

  it('makes a spool as the owner of the directory above it', async () => {
    const directory = join(usersSpool(), 'home')
    mkdirSync(directory)
    chownSync(directory, USER, USER)
    const { code, stdout } = await enqueue(join(directory, 'spool'), ['a=b'])
    assert.equal(code, 0)
    assert.deepEqual(ownersOf(stdout.trim()), [USER, USER])
    assert.deepEqual(ownersOf(join(directory, 'spool')), [USER, USER])
  })
})
