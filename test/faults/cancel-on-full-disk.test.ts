import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { inProcess } from '../helpers/cli.js'
import { readJournal, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { smallDisk } from '../helpers/small-disk.js'
import { lettersIn } from '../helpers/spools.js'
import { until } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'

/** Runs until the task is cancelled or its process is killed. Its journal is on another disk. */
const HANDLER = (journal: string) => `
  import { setTimeout as sleep } from 'node:timers/promises'
  export default async (env, task) => {
    appendFileSync(${JSON.stringify(journal)}, task.name + '\\n')
    await sleep(600_000, undefined, env.how === 'heed' ? { signal: task.signal } : {})
    return task.SPOOL_OK
  }`

/** Fills a file system, in each way in which one can be full. */
const FULL: Readonly<Record<string, (disk: string) => void>> = {
  blocks: disk => {
    try {
      writeFileSync(join(disk, 'filler'), Buffer.alloc(2 ** 21))
    } catch {} // it is full now
  },
  inodes: disk => {
    try {
      for (let i = 0; ; i++) writeFileSync(join(disk, `filler${i}`), '')
    } catch {}
  },
}

async function lettersOf(spool: string): Promise<string[]> {
  const found: string[] = []
  for await (const { name, letter } of lettersIn(spool)) found.push(`${name} ${letter?.reason}`)
  return found.sort()
}

describe('spoold cancel on a full disk', { skip: skipUnless('root', 'mount') }, () => {
  for (const [what, fill] of Object.entries(FULL))
    it(`(no free ${what}) loses nothing, lets nothing run again, and buries when there is room`, async () => {
      const disk = smallDisk('size=1m,nr_inodes=100')
      const spool = join(disk, 'spool')
      mkdirSync(spool)
      const outside = workspace()
      const daemon = await startDaemon({
        spool,
        handler: HANDLER(join(outside, 'journal')),
        ini: { 'spooler-frequency': 1, 'spooler-processes': 2 },
      })
      const started = () => readJournal(outside)
      const running = ['heed', 'ignore'].map(how => drop(spool, how, packet({ how })))
      await until('both tasks run', () => started().length === 2)
      const waiting = drop(spool, 'later', packet({}), Math.floor(Date.now() / 1000) + 3600)
      fill(disk)
      for (const path of running) {
        const { code, stdout, stderr } = await inProcess(['cancel', path])
        assert.deepEqual([code, stdout], [1, ''])
        assert.match(stderr, /it was ended, and waits to be buried, which is not possible now: .*ENOSPC/)
      }
      const refused = await inProcess(['cancel', waiting])
      assert.deepEqual([refused.code, refused.stdout], [1, ''])
      assert.match(refused.stderr, /it is left as it was, because it cannot be buried: ENOSPC/)
      assert.deepEqual([leftIn(spool), await lettersOf(spool)], [['heed', 'ignore', 'later'], []])
      execFileSync('find', [disk, '-name', 'filler*', '-delete'])
      await until('both tasks are buried', async () => (await lettersOf(spool)).length === 2)
      // The reason could not be written on the full disk.
      assert.deepEqual(await lettersOf(spool), ['heed unknown', 'ignore unknown'])
      assert.deepEqual([leftIn(spool), started().sort()], [['later'], ['heed', 'ignore']])
      assert.doesNotMatch(daemon.output, /OOOPS|crash/)
    })
})
