import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { giveAway, USER } from '../helpers/canaries.js'
import { spoold } from '../helpers/cli.js'
import { writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

/** A handler that writes where it may and where it may not, and runs a program. */
const HANDLER = (home: string) => `
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
const outcome = act => { try { return String(act()).trim() } catch (error) { return error.code } }
export default (env, task) => {
  console.log('spool ' + outcome(() => writeFileSync('${home}/spool/.note', 'x')))
  console.log('home ' + outcome(() => writeFileSync('${home}/note', 'x')))
  console.log('program ' + outcome(() => execFileSync('echo', ['ran'])))
  const lines = readFileSync('/proc/self/status', 'utf8').split('\\n')
  console.log('privileges ' + lines.filter(line => /^(CapEff|CapBnd|NoNewPrivs)/.test(line)).join(' ').replaceAll('\\t', ' '))
  return task.SPOOL_OK
}`

/** Makes a spool of the user with one task. Returns it, and what `spoold unit --hardened` prints for it. */
async function application() {
  const spool = spoolDirectory()
  const home = dirname(spool)
  chmodSync(home, 0o755)
  writeFileSync(join(home, 'h.mjs'), HANDLER(home))
  writeIni(join(home, 'app.ini'), {
    spooler: spool,
    'spooler-import': join(home, 'h.mjs'),
    uid: USER,
    gid: USER,
  })
  drop(spool, 'a', packet({}))
  giveAway(spool)
  const { stdout } = await spoold(['unit', '--hardened', join(home, 'app.ini')])
  const directive = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(stdout)?.[1] ?? ''
  return { spool, home, directive, command: [process.execPath, BIN, join(home, 'app.ini'), '--drain'] }
}

/** Makes all mounts but some directories read-only, then runs a command that has no capability and can gain none. */
const RESTRICT = `
set -e
mount --make-rprivate /
for path in $WRITABLE; do mount --bind "$path" "$path"; done
while read -r _ _ _ _ path _; do
  case " $WRITABLE /proc /sys /dev " in *" $path "*) continue;; esac
  case "$path" in /proc/*|/sys/*|/dev/pts|/dev/mqueue) continue;; esac
  mount -o remount,bind,ro "$path" 2>/dev/null || true
done < /proc/self/mountinfo
exec setpriv --reuid ${USER} --regid ${USER} --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@"`

describe('under the restrictions of the hardened unit', {
  skip: skipUnless('root', 'mount', 'systemd'),
}, () => {
  it('tasks run, can write only where the unit allows it, and have no capability', async () => {
    const { spool, directive, command } = await application()
    assert.equal(directive('ProtectSystem'), 'strict')
    assert.equal(directive('NoNewPrivileges'), 'yes')
    assert.equal(directive('CapabilityBoundingSet'), '')
    const env = { WRITABLE: directive('ReadWritePaths') }
    const daemon = new TestProcess('unshare', ['-m', 'sh', '-c', RESTRICT, 'sh', ...command], {
      env,
      cwd: '/',
    })
    assert.equal(await daemon.code(), 0, daemon.output)
    assert.match(daemon.output, /^spool undefined$/m)
    assert.match(daemon.output, /^home EROFS$/m)
    assert.match(daemon.output, /^program ran$/m)
    assert.match(daemon.output, /^privileges CapEff: 0+ CapBnd: 0+ NoNewPrivs: 1$/m)
    assert.deepEqual(leftIn(spool), ['.note'])
  })

  it('the daemon makes no system call and uses no address family or namespace that the unit forbids', {
    skip: skipUnless('strace'),
  }, async () => {
    const { home, directive, command } = await application()
    const log = join(home, 'calls')
    const daemon = new TestProcess('strace', [
      '-f',
      '-qq',
      '-s',
      '0',
      '-e',
      'signal=none',
      '-o',
      log,
      ...command,
    ])
    assert.equal(await daemon.code(), 0, daemon.output)
    const calls = readFileSync(log, 'latin1').split('\n')
    const names = new Set(
      calls.map(line => /^\d+ +([a-z0-9_]+)\(/.exec(line)?.[1]).filter(name => name !== undefined),
    )
    assert.ok(names.size > 40 && names.has('execve'), String(names.size))
    const allowed = systemCalls(directive('SystemCallFilter').split(' '))
    // calls before the daemon is the user: systemd makes them itself, and strace sees them of its own child
    const asRoot = ['setuid', 'setgid', 'setgroups']
    assert.deepEqual(
      [...names].filter(name => !allowed.has(name) && !asRoot.includes(name)),
      [],
    )
    const families = new Set(calls.flatMap(line => / socket\((AF_[A-Z0-9]+)/.exec(line)?.slice(1) ?? []))
    const permitted = directive('RestrictAddressFamilies').split(' ')
    assert.deepEqual(
      [...families].filter(family => !permitted.includes(family)),
      [],
    )
    assert.deepEqual(
      calls.filter(line => /CLONE_NEW/.test(line)),
      [],
    )
    // the reason why MemoryDenyWriteExecute= is not in the unit
    assert.ok(
      calls.some(
        line => /(mprotect|mmap)\(.*PROT_EXEC/.test(line) && /PROT_WRITE\|PROT_EXEC|mprotect/.test(line),
      ),
    )
  })
})

/** The names in sets of system calls, such as @system-service. */
function systemCalls(sets: readonly string[]): Set<string> {
  const names = sets.flatMap(name => {
    if (!name.startsWith('@')) return [name]
    const listed = execFileSync('systemd-analyze', ['syscall-filter', name], { encoding: 'utf8' })
    return listed
      .split('\n')
      .filter(line => /^ +[@a-z]/.test(line))
      .map(line => line.trim())
  })
  return names.every(name => !name.startsWith('@')) ? new Set(names) : systemCalls([...new Set(names)])
}
