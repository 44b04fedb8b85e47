import assert from 'node:assert/strict'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { USER } from '../helpers/canaries.js'
import { type CliResult, spoold } from '../helpers/cli.js'
import { writeIni } from '../helpers/daemon.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { workspace } from '../helpers/workspace.js'

/** Code that writes the uid of its process to a file. */
const SAYS = (proof: string) =>
  `import { writeFileSync } from 'node:fs'\nwriteFileSync(${JSON.stringify(proof)}, String(process.getuid()))\n`

describe('root runs code of another user as that user, or not at all:', {
  skip: skipUnless('root', 'python3'),
}, () => {
  let home: string
  let proof: string
  let spool: string

  /** Writes a file of the user, in a directory of the user. */
  function write(name: string, text: string, uid = USER): string {
    const path = join(home, 'code', name)
    writeFileSync(path, text)
    chmodSync(path, 0o755)
    chownSync(path, uid, uid)
    return path
  }

  function ini(settings: Parameters<typeof writeIni>[1]): string {
    const file = join(home, 'app.ini')
    writeIni(file, settings)
    return file
  }

  const ranAs = () => (existsSync(proof) ? readFileSync(proof, 'utf8').trim() : 'nobody')

  /** Makes the directories and files that a test starts with. */
  function begin(): void {
    home = workspace()
    chmodSync(home, 0o755)
    for (const name of ['code', 'spool', 'roots']) mkdirSync(join(home, name))
    for (const name of ['code', 'spool']) chownSync(join(home, name), USER, USER)
    spool = join(home, 'spool')
    proof = join(home, 'code/proof')
  }

  it('the algorithm that scaling tries', async () => {
    begin()
    const algorithm = write(
      'algo.mjs',
      `${SAYS(proof)}export default ({ target }) => ({ target, state: undefined, reason: 'as it is' })\n`,
    )
    const settings = {
      spooler: spool,
      'spooler-cheaper': 1,
      'spooler-processes': 4,
      'spooler-cheaper-algo': algorithm,
    }
    const run = (more: object) => spoold(['scaling', ini({ ...settings, ...more }), '--pattern', 'burst'])
    const named = await run({ uid: USER })
    assert.equal(named.code, 0, named.stderr)
    assert.match(named.stderr, /the algorithms are run as uid 65534, whom the configuration names/)
    assert.equal(ranAs(), String(USER))
    chownSync(proof, USER, USER)
    assert.match((await run({})).stderr, /run as uid 65534, to whom .*spool belongs/)
    const roots = await spoold([
      'scaling',
      ini({ ...settings, spooler: join(home, 'roots') }),
      '--pattern',
      'burst',
      '--algorithms',
      algorithm,
    ])
    assert.match(roots.stderr, /run as uid 65534, who can change .*algo\.mjs/)
    assert.equal(ranAs(), String(USER))
  })

  it('the interpreter that check starts', async () => {
    begin()
    mkdirSync(join(home, 'code/venv/bin'), { recursive: true })
    write('venv/bin/python3', `#!/bin/sh\nid -u > ${proof}\nexec ${PYTHON} "$@"\n`)
    const handler = write('h.py', 'import uwsgi\n')
    const settings = { virtualenv: join(home, 'code/venv'), 'spooler-python-import': handler }
    for (const more of [
      { spooler: spool, uid: USER },
      { spooler: spool },
      { spooler: join(home, 'roots') },
    ]) {
      const { code, stdout } = await spoold(['check', ini({ ...settings, ...more })])
      assert.equal(code, 0, stdout)
      assert.equal(ranAs(), String(USER), JSON.stringify(more))
    }
    const link = join(home, 'code/link')
    symlinkSync(spool, link)
    chownSync(proof, 0, 0)
    writeFileSync(proof, 'nobody')
    const doubtful = await spoold(['check', ini({ ...settings, spooler: link })])
    assert.match(doubtful.stderr, /the handlers are not parsed: root does nothing in /)
    assert.equal(ranAs(), 'nobody')
  })

  it('the handlers and interpreters that doctor loads', async () => {
    begin()
    const handlers = {
      'spooler-import': write('h.mjs', `${SAYS(proof)}export default () => {}\n`),
      'spooler-python-import': write(
        'h.py',
        `import os, uwsgi\nopen(${JSON.stringify(`${proof}.py`)}, 'w').write(str(os.getuid()))\nuwsgi.spooler = lambda env: uwsgi.SPOOL_OK\n`,
      ),
    }
    const ofUser = (result: CliResult) => result.stdout.match(/^\w+ +user: .*$/gm)?.join('\n') ?? ''
    const own = await spoold(['doctor', ini({ spooler: spool, ...handlers })])
    assert.match(
      ofUser(own),
      /ok +user: 65534: examined as uid 65534, .*to whom .*spool belongs\nerror +user: .*root works only in what is root’s/,
    )
    assert.equal(ranAs(), String(USER))
    assert.equal(readFileSync(`${proof}.py`, 'utf8'), String(USER))
    const roots = await spoold(['doctor', ini({ spooler: join(home, 'roots'), ...handlers })])
    assert.match(
      ofUser(roots),
      /who can change .*h\.(?:mjs|py)\nwarning +user: .*run what that user writes there/,
    )
    assert.equal(ranAs(), String(USER))
  })
})
