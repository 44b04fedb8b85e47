import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { closeSync, existsSync, openSync } from 'node:fs'
import { describe, it } from 'node:test'
import { leftIn } from '../helpers/files.js'
import {
  type Case,
  changesNoAnswer,
  dead,
  ends,
  filled,
  getsAll,
  keepsNoWorkUndone,
} from '../helpers/output-readers.js'
import { LEAVER, piped } from '../helpers/pipe.js'
import { BIN } from '../helpers/workspace.js'

// One command of each kind; output-each.test.ts has the others.

const LS: Case = { name: 'ls', on: filled, args: spool => ['ls', spool], extra: 1 }
const FSCK: Case = { name: 'fsck', on: dead, args: spool => ['fsck', spool], extra: 1, code: 1 }
const RM: Case = { name: 'rm', on: filled, args: spool => ['rm', '--all', spool], left: 0 }

describe('a reader that sleeps', () => {
  for (const each of [LS, FSCK, RM]) getsAll(each)
})

describe('a reader that leaves', () => {
  ends(LS)
  changesNoAnswer(FSCK)
  keepsNoWorkUndone(RM)

  it('does not change the exit code of a command that failed', async () => {
    const spool = filled()
    const { code } = await piped(['rm', '--all', `${spool}/no-such-task`, spool], LEAVER)
    assert.equal(code, 1)
    assert.deepEqual(leftIn(spool), [])
  })

  it('lets spoold --help exit with 0', async () => {
    const { code } = await piped(['--help'], 'exec <&-; sleep 1')
    assert.equal(code, 0)
  })
})

describe('a full disk behind standard output', {
  skip: existsSync('/dev/full') ? false : 'needs /dev/full',
}, () => {
  function intoFull(args: readonly string[]) {
    const full = openSync('/dev/full', 'w')
    try {
      const { status, stderr } = spawnSync(process.execPath, [BIN, ...args], {
        stdio: ['ignore', full, 'pipe'],
      })
      return { code: status, stderr: String(stderr) }
    } finally {
      closeSync(full)
    }
  }

  it('makes a command that only prints exit with 74', () => {
    const { code, stderr } = intoFull(['ls', filled()])
    assert.equal(code, 74)
    assert.match(stderr, /^spoold: \[OUTPUT_FAILED\] standard output cannot be written: ENOSPC[^\n]*\n$/)
  })

  it('makes --help exit with 74', () => {
    assert.equal(intoFull(['--help']).code, 74)
  })

  it('is reported by a command that changes tasks, which goes on and exits with 74', () => {
    const spool = filled()
    const { code, stderr } = intoFull(['rm', '--all', spool])
    assert.equal(code, 74)
    assert.match(stderr, /^spoold: \[OUTPUT_FAILED\] [^\n]*ENOSPC[^\n]*; the command goes on\n$/)
    assert.deepEqual(leftIn(spool), [])
  })
})
