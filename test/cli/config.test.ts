import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { resolveOptions } from '#src/formats/config/options.js'
import { readConfig } from '#src/formats/ini/read-config.js'
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
  const own = spools.map(({ directory, isExternal, options, handlers }) => ({
    directory,
    isExternal,
    options,
    handlers,
  }))
  return { options, own, anySpool: [anySpool.options, anySpool.handlers], environment }
}

describe('spoold config', () => {
  it('prints each value below a comment that says where it was written', async () => {
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
    assert.doesNotMatch(
      stdout,
      /^(root|processes|chdir) =/m,
      'placeholders, options of uWSGI alone and unset options are left out',
    )
  })

  it('prints an ini file with the same meaning', async () => {
    const directory = workspace()
    const [file, again] = [join(directory, 'app.ini'), join(directory, 'again.ini')]
    writeFileSync(file, APP)
    const first = await inProcess(['config', '--with-secrets', file])
    writeFileSync(again, first.stdout)
    assert.deepEqual(meaning(again), meaning(file))
    const second = await inProcess(['config', '--with-secrets', again])
    const withoutOrigins = (text: string) => text.replace(/^; .*\n/gm, '')
    assert.equal(withoutOrigins(second.stdout), withoutOrigins(first.stdout))
  })

  it('prints each spool with its own options, and below it, as comments, all options that apply to it', async () => {
    const directory = workspace()
    const [file, again] = [join(directory, 'app.ini'), join(directory, 'again.ini')]
    writeFileSync(
      file,
      '[uwsgi]\nspooler-external = /srv/other\nspooler = /srv/mail\nspooler-exec = first\nspooler-import = all.mjs\n' +
        'spooler2 = dir=/srv/mail,exec=printf %%s a\\,b,import=own.mjs,freq=90s,quiet,pythonpath=a,pythonpath=b\n' +
        'spooler2 = external,dir=/srv/more\\,\\\\,sync=off\nspooler-max-attempts = 3\n',
    )
    const first = await inProcess(['config', file])
    assert.deepEqual([first.code, first.stderr], [0, ''])
    const head = first.stdout.slice(0, first.stdout.indexOf('; default'))
    assert.equal(
      head.replaceAll(file, 'app.ini'),
      `[uwsgi]
; app.ini:2
spooler-external = /srv/other
; app.ini:6
spooler2 = dir=/srv/mail,freq=90,exec=printf %%s a\\,b,import=own.mjs,pythonpath=a,pythonpath=b,quiet=true
; the configured options of /srv/mail:
;   spooler-frequency = 90 (app.ini:6)
;   spooler-max-attempts = 3 (app.ini:8)
;   spooler-exec = printf %%s a,b (app.ini:6)
;   spooler-import = own.mjs (app.ini:6)
;   pythonpath = a (app.ini:6)
;   pythonpath = b (app.ini:6)
;   spooler-quiet = true (app.ini:6)
; app.ini:7
spooler2 = dir=/srv/more\\,\\\\,external,sync=false
; the configured options of /srv/more,\\:
;   spooler-sync = false (app.ini:7)
;   spooler-max-attempts = 3 (app.ini:8)
;   spooler-exec = first (app.ini:4)
;   spooler-import = all.mjs (app.ini:5)
`,
    )
    writeFileSync(again, first.stdout)
    assert.deepEqual(meaning(again), meaning(file))
  })

  it('prints as JSON the real paths of spools, the options that handlers see, settings with origins, and errors', async () => {
    const directory = workspace()
    const file = join(directory, 'app.ini')
    mkdirSync(join(directory, 'a'))
    symlinkSync('a', join(directory, 'link'))
    writeFileSync(
      file,
      '[uwsgi]\nname = x\nspooler-external = %d/link\nspooler2 = dir=%d/b,ordered,sync=off\nspooler = redis://u:p@h/0/%(name)\nenv = A=secret\nspooler-processes = many\n',
    )
    const { code, stdout } = await inProcess(['config', '--as-json', file])
    assert.equal(code, 1)
    const { spools, options, settings, errors } = JSON.parse(stdout)
    assert.deepEqual(spools, [
      { spool: join(directory, 'a'), isExternal: true, isOrdered: false, isSynced: true },
      { spool: join(directory, 'b'), isExternal: false, isOrdered: true, isSynced: false },
      { spool: 'redis://[hidden]@h/0/x', isExternal: false, isOrdered: false, isSynced: true },
    ])
    const last = (name: string) => options.findLast(([key]: [string]) => key === name)?.[1]
    assert.deepEqual([last('name'), last('spooler'), last('env')], ['x', `${directory}//b`, 'A=[hidden]'])
    assert.deepEqual(
      settings.find(({ option }: { option: string }) => option === 'spooler-sweep'),
      { option: 'spooler-sweep', value: '3600', from: 'default' },
    )
    assert.match(errors[0], /app\.ini:7: error: spooler-processes/)
    assert.ok(!stdout.includes('secret'))
    const whole = await inProcess(['config', '--as-json', '--with-secrets', file])
    assert.match(whole.stdout, /redis:\/\/u:p@h\/0\/x[\s\S]*A=secret/)
  })

  it('reads the file that SPOOLD_INI names when neither a file nor a spool is given', async () => {
    const file = join(workspace(), 'app.ini')
    writeFileSync(file, '[uwsgi]\nspooler = /srv/spool\n')
    const env = { SPOOLD_INI: file }
    for (const words of [[], [file], ['--ini', file], ['--spooler', '/srv/other']]) {
      const { stdout } = await inProcess(['config', '--as-json', ...words], { env })
      assert.equal(JSON.parse(stdout).spools.length, 1, words.join(' '))
    }
  })

  it('reports a value that it cannot read, prints the rest, and exits with 1', async () => {
    const file = join(workspace(), 'app.ini')
    writeFileSync(file, '[uwsgi]\nspooler = /srv/spool\nspooler-processes = many\n')
    const { code, stdout, stderr } = await inProcess(['config', file])
    assert.equal(code, 1)
    assert.match(stdout, /^spooler = \/srv\/spool$/m)
    assert.match(stderr, /app\.ini:3: error: spooler-processes: expected a whole number/)
  })
})
