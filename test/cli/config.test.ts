import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { resolveOptions } from '#src/config/options.js'
import { readConfig } from '#src/ini/read-config.js'
import { inProcess } from '../helpers/cli.js'
import { workspace } from '../helpers/workspace.js'

const APP = `[uwsgi]
; percent signs, what other dialects take for comments and quotes, and every kind of value
root = /srv
spooler = %(root)/spool
spooler-external = /var/spool/other
spooler-import = /srv/app; really #1/"handler".js
spooler-exec = printf '%%s' "$SPOOL_a" = b
spooler-frequency = 1500ms
spooler-retry-delay = 0.25
spooler-ordered = on
spooler-sync = off
spooler-backoff = exponential
chmod-socket
socket = :3031
timer = 17 60
umask = 007
env = A=1
env = B=%%d
unenv = LANG
logto = /var/log/%n.log
log-date
processes = 8
`

function meaning(file: string) {
  const config = readConfig({ environment: {}, commandLine: [], files: [file], version: '0' })
  const { options, spools, anySpool, environment } = resolveOptions(config)
  const directories = spools.map(({ directory, isExternal }) => [directory, isExternal])
  return { options, directories, anySpool, environment }
}

describe('spoold config', () => {
  it('prints every value below the place where it was written', async () => {
    const file = join(workspace(), 'app.ini')
    writeFileSync(file, APP)
    const { code, stdout, stderr } = await inProcess(['config', file, '--spooler-processes', '3'])
    assert.deepEqual([code, stderr], [0, ''])
    assert.match(stdout, /^\[uwsgi\]\n/)
    const origins = new Map<string, string>()
    let above = ''
    for (const line of stdout.split('\n'))
      if (line.startsWith('; ')) above = line.slice(2)
      else origins.set(line, above)
    assert.equal(origins.get('spooler = /srv/spool'), `${file}:4`)
    assert.equal(origins.get('spooler-processes = 3'), 'command line')
    assert.equal(origins.get('spooler-frequency = 1.5'), `${file}:8`)
    assert.equal(origins.get('spooler-max-crashes = 3'), 'default')
    assert.equal(origins.get('chmod-socket = 666'), `${file}:13`)
    assert.equal(origins.get('unenv = LANG'), `${file}:19`)
    assert.doesNotMatch(stdout, /^(root|processes|chdir) =/m, 'placeholders, options of uWSGI alone, unset')
  })

  it('prints an ini file that means the same', async () => {
    const directory = workspace()
    const [file, again] = [join(directory, 'app.ini'), join(directory, 'again.ini')]
    writeFileSync(file, APP)
    const first = await inProcess(['config', file])
    writeFileSync(again, first.stdout)
    assert.deepEqual(meaning(again), meaning(file))
    const second = await inProcess(['config', again])
    const withoutOrigins = (text: string) => text.replace(/^; .*\n/gm, '')
    assert.equal(withoutOrigins(second.stdout), withoutOrigins(first.stdout))
  })

  it('tells what cannot be read, prints the rest, and ends with 1', async () => {
    const file = join(workspace(), 'app.ini')
    writeFileSync(file, '[uwsgi]\nspooler = /srv/spool\nspooler-processes = many\n')
    const { code, stdout, stderr } = await inProcess(['config', file])
    assert.equal(code, 1)
    assert.match(stdout, /^spooler = \/srv\/spool$/m)
    assert.match(stderr, /app\.ini:3: error: spooler-processes: expected a whole number/)
  })
})
