import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { readAudit } from '#src/engines/spool/admin/audit.js'
import { AUDITED_CALLS, assertAuditedBefore } from '../helpers/audited.js'
import { giveAway, USER } from '../helpers/canaries.js'
import { inProcess, spoold } from '../helpers/cli.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { BIN, spoolDirectory, workspace } from '../helpers/workspace.js'

const who = process.env.SUDO_USER ?? userInfo().username

describe('commands that change tasks', () => {
  it('write one entry per spool to the audit', async () => {
    const spool = spoolDirectory()
    for (const name of ['a', 'b', 'c']) drop(spool, name, packet({ to: 'joe' }))
    const commands = [
      ['hold', join(spool, 'a'), join(spool, 'b')],
      ['release', '--all', spool],
      ['kick', '--key', 'to=joe', spool],
      ['cancel', join(spool, 'a')],
      ['requeue', '--all', spool],
      ['pause', spool, '--key', 'to=joe'],
      ['resume', spool, '--all'],
      ['rm', '--state', 'due', spool],
      ['purge', '--all', spool],
    ]
    for (const args of commands) assert.equal((await inProcess(args)).code, 0, args.join(' '))
    const entries = readAudit(spool, 99).reverse()
    assert.deepEqual(
      entries.map(each => [each.action, each.task, each.filter, each.count]),
      [
        ['hold', 'a b', undefined, 2],
        ['release', undefined, '{}', undefined],
        ['kick', undefined, '{"key":["to=joe"]}', undefined],
        ['cancel', 'a', undefined, 1],
        ['requeue', undefined, '{}', undefined],
        ['pause', undefined, '{"key":["to=joe"]}', undefined],
        ['resume', undefined, undefined, undefined],
        ['rm', undefined, '{"state":"due"}', undefined],
        ['purge', undefined, '{"maxAgeMs":null,"maxCount":0}', undefined],
      ],
    )
    assert.deepEqual(new Set(entries.map(each => `${each.who} ${each.role}`)), new Set([`${who} owner`]))
  })

  it('write nothing to the audit with --dry-run, or when there is nothing to do', async () => {
    const spool = spoolDirectory()
    drop(spool, 'a')
    await inProcess(['rm', '--all', '--dry-run', spool])
    await inProcess(['release', '--all', spool])
    await inProcess(['purge', '--all', '--dry-run', spool])
    assert.deepEqual(readAudit(spool, 9), [])
  })

  for (const command of ['rm', 'hold', 'cancel'])
    it(`write to the audit before they act: ${command}`, { skip: skipUnless('strace') }, () => {
      const spool = spoolDirectory()
      const log = join(workspace(), 'log')
      const path = drop(spool, 'uwsgi_spoolfile_a', packet({ to: 'joe' }), 4_000_000_000)
      const traced = ['-f', '-y', '-e', AUDITED_CALLS, '-o', log, process.execPath, BIN, command, path]
      assert.equal(spawnSync('strace', traced, { stdio: 'ignore' }).status, 0)
      assertAuditedBefore(readFileSync(log, 'utf8').split('\n'), 'uwsgi_spoolfile_a')
    })

  it('name in the audit who typed them, root included, and not the owner that root becomes', {
    skip: skipUnless('root'),
  }, async () => {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    drop(spool, 'a')
    giveAway(spool)
    assert.equal((await spoold(['hold', join(spool, 'a')], { env: { SUDO_USER: '' } })).code, 0)
    assert.equal((await spoold(['release', join(spool, 'a')], { env: { SUDO_USER: 'ann' } })).code, 0)
    const entries = readAudit(spool, 9)
    assert.deepEqual(
      entries.map(each => [each.who, each.action]),
      [
        ['ann', 'release'],
        ['root', 'hold'],
      ],
    )
    assert.equal(statSync(join(spool, '.spoold/audit')).uid, USER)
  })

  it('go on when the audit cannot be written, and say so', async () => {
    const spool = spoolDirectory()
    drop(spool, 'a')
    mkdirSync(join(spool, '.spoold/audit'), { recursive: true, mode: 0o700 })
    const { code, stderr } = await inProcess(['rm', '--all', spool])
    assert.equal(code, 0)
    assert.match(stderr, /not in the audit: EISDIR/)
    assert.deepEqual(leftIn(spool), [])
  })
})
