import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { smallDisk } from '../helpers/small-disk.js'
import { BIN, spoolDirectory, workspace } from '../helpers/workspace.js'

const [OWNER, MEMBER] = [65_533, 65_534]

/** Makes a spool of OWNER that its group may look into, with two tasks, a dead letter, and a `.spoold` for OWNER alone. */
function groupSpool(mode: number): string {
  const spool = spoolDirectory()
  for (const below of ['.spoold', '.spoold/dead', '.spoold/locks', '7']) mkdirSync(join(spool, below))
  const paths = [drop(spool, 'a'), drop(spool, '7/b'), drop(spool, '.spoold/dead/c')]
  for (const path of paths) chmodSync(path, 0o640)
  for (const path of [
    ...paths,
    ...['7', '.spoold/dead', '.spoold/locks', '.spoold', ''].map(each => join(spool, each)),
  ])
    chownSync(path, OWNER, MEMBER)
  chmodSync(join(spool, '.spoold'), 0o700)
  chmodSync(join(spool, '7'), mode)
  chmodSync(spool, mode)
  chmodSync(join(spool, '..'), 0o755)
  return spool
}

function asMember(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [BIN, ...args], {
    uid: MEMBER,
    gid: MEMBER,
    encoding: 'utf8',
  })
  return { code: status, stdout, stderr }
}

const ONE_SENTENCE = /^(?:spoold: [^\n]+\n)+$/

describe('a member of the group of a spool', { skip: skipUnless('root') }, () => {
  it('sees the tasks, and is told what it may not see, and by exit code 1 that the list is not whole', () => {
    const spool = groupSpool(0o750)
    const { code, stdout, stderr } = asMember('ls', '--json', spool)
    const names = stdout
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line).name)
    assert.deepEqual(names, ['7/b', 'a'])
    assert.match(stderr, /^spoold: \S+\/\.spoold\/dead cannot be listed: [^\n]+\n$/)
    assert.equal(code, 1)
    const living = asMember('ls', '--state', 'due', spool)
    assert.deepEqual([living.code, living.stderr], [0, ''])
  })

  it('is told that what is paused is unknown, not that all tasks are paused', () => {
    const spool = groupSpool(0o750)
    const { stdout } = asMember('status', spool)
    assert.match(stdout, /^ {2}paused {6}unknown: only its user and root may enter \.spoold$/m)
    assert.doesNotMatch(stdout, /, paused$|all tasks/m)
    assert.equal(JSON.parse(asMember('status', '--json', spool).stdout).spools[0].paused, null)
  })

  it('is told in one sentence what it may not change', () => {
    const spool = groupSpool(0o750)
    for (const args of [
      ['rm', '--all'],
      ['kick', '--all'],
      ['hold', '--all'],
      ['requeue', '--all'],
      ['purge', '--all'],
    ]) {
      const { code, stderr } = asMember(...args, spool)
      assert.match(stderr, ONE_SENTENCE, args.join(' '))
      assert.equal(code, 1, args.join(' '))
    }
    assert.deepEqual(leftIn(spool), ['7/b', 'a'])
  })

  it('is told of each task that it may not read that this task was left alone', () => {
    const spool = groupSpool(0o750)
    rmSync(join(spool, '.spoold'), { recursive: true })
    for (const name of ['a', '7/b']) chmodSync(join(spool, name), 0o600)
    symlinkSync('/nonexistent', join(spool, 'link')) // no task, and no fault
    for (const args of [
      ['rm', '--all'],
      ['kick', '--all', '--dry-run'],
      ['hold', '--key', 'to=joe'],
      ['ls', '--key', 'to=joe'],
    ]) {
      const { code, stderr } = asMember(...args, spool)
      const lines = stderr.trimEnd().split('\n').sort()
      assert.equal(lines.length, 2, stderr)
      assert.match(lines[0] ?? '', /^spoold: \S+\/7\/b (was left alone, because it )?cannot be read: EACCES/)
      assert.match(lines[1] ?? '', /^spoold: \S+\/a (was left alone, because it )?cannot be read: EACCES/)
      assert.equal(code, 1, args.join(' '))
    }
    const named = asMember('kick', '--name', 'c*', spool)
    assert.deepEqual([named.code, named.stderr], [0, 'spoold: no task fits\n'])
  })

  it('is told by the daemon what to do about a task that it may not open', () => {
    const spool = spoolDirectory()
    chmodSync(drop(spool, 'a'), 0o600)
    chownSync(spool, MEMBER, MEMBER)
    chmodSync(join(spool, '..'), 0o755)
    const { code, stderr } = asMember('--drain', '--spooler', spool, '--spooler-exec', 'true')
    assert.match(stderr, /\] a is left alone: EACCES[^\n]*; run spoold fsck --repair as root\n/)
    assert.equal(code, 3)
  })

  it('is told which priority directories it may not list', () => {
    const spool = groupSpool(0o750)
    chmodSync(join(spool, '7'), 0o700)
    const { code, stdout, stderr } = asMember('ls', '--state', 'due', '--json', spool)
    assert.equal(JSON.parse(stdout).name, 'a')
    assert.match(stderr, /^spoold: \S+\/7\/ cannot be listed: EACCES[^\n]+\n$/)
    assert.equal(code, 1)
  })
})

describe('a read-only file system', { skip: skipUnless('root', 'mount') }, () => {
  it('is reported in one sentence by each command, and no task is lost', async () => {
    const disk = smallDisk('size=1m')
    const spool = join(disk, 'spool')
    mkdirSync(spool, { mode: 0o750 })
    drop(spool, 'a', packet({ a: 'b' }))
    execFileSync('mount', ['-o', 'remount,ro', disk])
    for (const args of [
      ['rm', '--all', spool],
      ['kick', '--all', spool],
      ['hold', '--all', spool],
      ['move', '--all', '--to', spoolDirectory(), spool],
      ['enqueue', '--spooler', spool, 'a=b'],
    ]) {
      const { code, stderr } = await spoold(args)
      assert.match(stderr, ONE_SENTENCE, args.join(' '))
      assert.notEqual(code, 0, args.join(' '))
    }
    assert.equal((await spoold(['ls', spool])).code, 0)
    assert.deepEqual(leftIn(spool), ['a'])
  })
})

describe('the environment in which a command starts', () => {
  const inShell = (script: string) =>
    spawnSync(
      'sh',
      ['-c', `${script}; exec "$0" "$@"`, process.execPath, BIN, 'enqueue', '--spooler', 'spool', 'a=b'],
      {
        cwd: workspace(),
        encoding: 'utf8',
      },
    )

  it('is refused when its current directory is gone', () => {
    const { status, stderr } = inShell('mkdir gone; cd gone; rmdir ../gone')
    assert.match(
      stderr,
      /^spoold: \[SYSTEM_REFUSED\] the current directory is gone, [^\n]* cd to another one [^\n]+\n$/,
    )
    assert.equal(status, 1)
  })

  it('is refused when the path of its current directory is longer than a system call takes', () => {
    const deep = 'top=$PWD; d=$(printf "d%.0s" $(seq 240)); for i in $(seq 18); do mkdir $d; cd $d; done'
    const { status, stderr } = spawnSync(
      'bash',
      ['-c', `${deep}; "$0" "$@"; code=$?; cd $top; rm -rf $d; exit $code`, process.execPath, BIN, 'ls', '.'],
      { cwd: workspace(), encoding: 'utf8' },
    )
    assert.match(
      stderr,
      /spoold: \[SYSTEM_REFUSED\] the path of the current directory is too long: cd to another one /,
    )
    assert.equal(status, 1)
  })

  it('may have a umask that takes rights from the owner', () => {
    const { status, stdout } = inShell('umask 0777')
    assert.equal(status, 0)
    assert.equal(statSync(stdout.trim()).mode & 0o777, 0o600)
    assert.equal(statSync(dirname(stdout.trim())).mode & 0o700, 0o700)
  })
})

describe('a spool whose path is longer than a system call takes', () => {
  it('is refused by check as what it is', async () => {
    const directory = workspace()
    const spooler = join(directory, ...Array.from({ length: 18 }, () => 'd'.repeat(240)))
    const [handler, ini] = [join(directory, 'handler.mjs'), join(directory, 'app.ini')]
    writeFileSync(handler, 'export default () => -2')
    writeIni(ini, { spooler, 'spooler-import': handler })
    const { code, stdout } = await spoold(['check', ini])
    assert.match(
      stdout,
      new RegExp(`:2: error: spooler: expected a path of at most 4095 bytes, got ${spooler.length}: /`),
    )
    assert.equal(code, 1)
  })
})

describe('a spool in a file system that makes no directories', () => {
  it('is refused because it cannot be made, not because the directory above it is missing', async () => {
    const { code, stderr } = await spoold(['enqueue', '--spooler', '/proc/spool', 'a=b'])
    assert.equal(code, 1)
    assert.match(stderr, /\/proc\/spool cannot be used: it cannot be made \(ENOENT: .*mkdir/)
  })
})
