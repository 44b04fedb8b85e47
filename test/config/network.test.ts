import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { inProcessAt, spoold } from '../helpers/cli.js'
import { skipUnless } from '../helpers/requires.js'
import { workspace } from '../helpers/workspace.js'

/** Returns what `spoold check` prints about an ini with these lines. */
async function check(lines: string): Promise<string> {
  const cwd = workspace()
  writeFileSync(join(cwd, 'h.mjs'), 'export default () => -2')
  writeFileSync(join(cwd, 'app.ini'), `[uwsgi]\nspooler = s\nspooler-import = h.mjs\n${lines}\n`)
  const { stdout } = await inProcessAt(cwd, ['check', 'app.ini'])
  return stdout.replaceAll(cwd, '<cwd>')
}

const GOOD = 'app.ini: the configuration is good (1 spool), 0 warnings\n'
const CASES: ReadonlyArray<readonly [lines: string, said: RegExp]> = [
  [
    'socket = 127.0.0.1:x',
    /app\.ini:4: error: socket: expected host:port, :port, \/path\/to\/socket or @name, got "127\.0\.0\.1:x"/,
  ],
  ['socket =', /app\.ini:4: error: socket: expected ADDRESS, got nothing/],
  [
    'socket = no/s',
    /app\.ini:4: error: socket: <cwd>\/no\/s cannot be made, because there is no directory <cwd>\/no/,
  ],
  ['socket = 127.0.0.1:1\nsocket = :1', /app\.ini:5: warning: socket: anyone who can reach :1 can run tasks/],
  ['strict = true\nuwsgi-socket = 0.0.0.0:1', /app\.ini:5: error: socket: anyone who can reach 0\.0\.0\.0:1/],
  [
    'socket-allow = 10.0.0.0/40',
    /app\.ini:4: error: socket-allow: expected an address or a network such as 10\.0\.0\.0\/8, got "10\.0\.0\.0\/40"/,
  ],
  ['chown-socket = nobody-at-all', /app\.ini:4: error: chown-socket: user nobody-at-all not found/],
  ['chown-socket = root:no-such-group', /app\.ini:4: error: chown-socket: group no-such-group not found/],
  ['chmod-socket = 9', /app\.ini:4: error: chmod-socket: expected 3 or 4 octal digits/],
  ['listen = 0', /app\.ini:4: error: listen: expected more than 0, got 0/],
  ['socket-timeout = 0', /app\.ini:4: error: socket-timeout: expected more than 0, got 0/],
  [
    'buffer-size = 65536',
    /app\.ini:4: warning: buffer-size: expected at most 65535, which is what a packet can hold, got 65536/,
  ],
]

describe('a configuration of the network', () => {
  for (const [lines, said] of CASES)
    it(lines.replaceAll('\n', ', '), async () => {
      assert.match(await check(lines), said)
    })

  it('is good when all of its lines are', async () => {
    const lines = [
      'socket = 127.0.0.1:0',
      'socket = s.sock',
      'socket = @s',
      'socket = [fd00::1]:1',
      'socket-allow = fd00::/8',
      'chmod-socket',
      'chown-socket = root:0',
      'listen = 10',
      'buffer-size = 4096',
    ]
    assert.equal(await check(lines.join('\n')), GOOD)
  })

  it('goes with master-as-root', { skip: skipUnless('root') }, async () => {
    assert.equal(await check('socket = s.sock\nmaster-as-root = true\nuid = nobody'), GOOD)
  })

  it('may use the short options of uWSGI', async () => {
    const cwd = workspace()
    writeFileSync(join(cwd, 'h.mjs'), 'export default () => -2')
    const flags = [
      '-s',
      'no/such',
      '-l',
      '5',
      '-b',
      '100',
      '-z',
      '3',
      '-C',
      '--spooler',
      's',
      '--spooler-import',
      'h.mjs',
    ]
    const { stdout } = await spoold(['check', ...flags], { cwd })
    assert.match(stdout, /command line: error: socket: .*no\/such/)
    assert.match(stdout, /1 error, 0 warnings/)
  })
})

describe('the options of the network', () => {
  it('are in the generated page docs/options.md', () => {
    const page = readFileSync(new URL('../../../docs/options.md', import.meta.url), 'utf8')
    assert.match(page, /## Network[\s\S]*`socket`, `uwsgi-socket`, `-s`/)
  })
})
