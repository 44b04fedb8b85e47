import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { skipUnless } from '../helpers/requires.js'
import { smallDisk } from '../helpers/small-disk.js'

/** The audit is written first, and may still have had room. */
const REFUSED =
  /^(spoold: \S+spool: not in the audit: (ENOSPC|EROFS): [^\n]+\n)?spoold: \S+spool: nothing has changed: the (disk is full \(ENOSPC\)|file system is read-only \(EROFS\))\n$/

const FULL: Readonly<Record<string, (disk: string) => void>> = {
  'without blocks': disk => {
    try {
      writeFileSync(join(disk, 'filler'), Buffer.alloc(2 ** 21))
    } catch {} // it is full now
  },
  'without inodes': disk => {
    try {
      for (let i = 0; ; i++) writeFileSync(join(disk, `filler${i}`), '')
    } catch {}
  },
  'read-only': disk => execFileSync('mount', ['-o', 'remount,ro', disk]),
}

describe('pause and resume on a full or read-only disk', { skip: skipUnless('root', 'mount') }, () => {
  for (const [what, spoil] of Object.entries(FULL))
    it(`say so, and change nothing by half: ${what}`, async () => {
      const disk = smallDisk('size=1m,nr_inodes=100')
      const spool = join(disk, 'spool')
      mkdirSync(spool)
      assert.equal((await spoold(['pause', spool, '--key', 'kind=mail'])).code, 0)
      const state = join(spool, '.spoold')
      const file = join(state, 'paused')
      const [before, names] = [readFileSync(file, 'utf8'), readdirSync(state)]
      spoil(disk)
      const pause = await spoold(['pause', spool])
      assert.deepEqual([pause.code, pause.stdout], [1, ''])
      assert.match(pause.stderr, REFUSED)
      assert.equal(readFileSync(file, 'utf8'), before)
      assert.deepEqual(readdirSync(state), names)
      const resume = await spoold(['resume', spool, '--all'])
      if (what === 'without blocks') return assert.equal(resume.code, 0, 'it only removes')
      assert.deepEqual([resume.code, resume.stdout], [1, ''])
      assert.match(resume.stderr, REFUSED)
      assert.equal(readFileSync(file, 'utf8'), before)
    })
})
