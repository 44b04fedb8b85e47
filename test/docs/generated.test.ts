import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { COMMANDS } from '#src/doors/cli/command-table.js'
import { OPTION_TABLE, type OptionSpec } from '#src/formats/config/option-table.js'
import { uwsgiNames } from '#src/formats/config/uwsgi-names.js'
import { skipUnless } from '../helpers/requires.js'
import { ROOT, workspace } from '../helpers/workspace.js'

it('generated pages are what `npm run docs` writes', () => {
  const check = (root: string) =>
    spawnSync(process.execPath, [join(root, 'docs/generate.mjs'), '--check'], { encoding: 'utf8' })
  assert.deepEqual([check(ROOT).stderr, check(ROOT).status], ['', 0])

  const copy = workspace()
  cpSync(join(ROOT, 'docs'), join(copy, 'docs'), { recursive: true })
  for (const name of ['build', 'package.json']) symlinkSync(join(ROOT, name), join(copy, name))
  for (const [name, from, to] of [
    ['options.md', '| `30` |', '| `31` |'],
    ['uwsgi-options.md', '| `strict` | all |', '| `strict` | part: some |'],
    ['status.md', '| `atMs` | `number` |', '| `atMs` | `string` |'],
    ['man/spoold.1', '(default: 30)', '(default: 31)'],
  ] as const) {
    const page = join(copy, 'docs', name)
    const text = readFileSync(page, 'utf8')
    assert.notEqual(text.replace(from, to), text)
    writeFileSync(page, text.replace(from, to))
    const { stderr, status } = check(copy)
    assert.ok(stderr.endsWith(`${name} is not current; run "npm run docs"\n`), stderr)
    assert.equal(status, 1)
    writeFileSync(page, text)
  }
})

it('each option has its default in docs/options.md, as it is without a configuration', () => {
  const page = readFileSync(join(ROOT, 'docs/options.md'), 'utf8')
  const rows = page.matchAll(/^\| `([\w-]+)`[^|]*\|(?:[^|\\]|\\.)*\| `?(.*?)`? \|/gm)
  const shown = new Map([...rows].map(([, name = '', text = '']) => [name, text]))
  for (const { name, kind, fallback } of OPTION_TABLE as ReadonlyArray<OptionSpec>) {
    const plain = kind === 'flag' && typeof fallback !== 'string' ? (fallback ? 'on' : 'off') : fallback
    assert.equal(shown.get(name), String(plain ?? ''), name)
  }
})

it('each option of uWSGI has one row, which says what becomes of it', () => {
  const page = readFileSync(join(ROOT, 'docs/uwsgi-options.md'), 'utf8')
  const rows = [...page.matchAll(/^\| `(.*?)` \| (.+) \|$/gm)].map(([, name]) => name)
  const own = OPTION_TABLE.filter(spec => !('isOurs' in spec)).map(({ name }) => name)
  assert.deepEqual([...new Set(rows)].sort(), [...rows].sort(), 'once')
  assert.deepEqual(
    [...own, ...uwsgiNames()].filter(name => !rows.includes(name)),
    [],
  )
  const [, missed = '', harmless = ''] = page.split(/^## /m).slice(1)
  for (const name of [
    'attach-daemon2',
    'hook-post-fork',
    'mule',
    'legion',
    'cron-curl',
    'chroot',
    'log-maxsize',
    'fs-reload',
  ])
    assert.match(missed, new RegExp(`\`${name}\``))
  for (const name of ['http', 'threads', 'plugins', 'static-map', 'thunder-lock', 'disable-logging'])
    assert.match(harmless, new RegExp(`\`${name}\``))
})

describe('the manual page', () => {
  const page = join(ROOT, 'docs/man/spoold.1')

  it('has every command, flag and option', () => {
    const text = readFileSync(page, 'utf8')
      .replaceAll('\\-', '-')
      .replace(/\\f[BRI]|\\&/g, '')
    for (const { name, flags } of COMMANDS) {
      assert.ok(text.includes(`\n.SS\nspoold ${name}\n`), name)
      for (const [names] of flags) assert.ok(text.includes(/--[\w-]+/.exec(names)?.[0] ?? '?'), names)
    }
    for (const { name } of OPTION_TABLE) assert.ok(text.includes(`--${name}`), name)
  })

  it('renders without a warning', { skip: skipUnless('man') }, () => {
    const groff = spawnSync('groff', ['-man', '-Tutf8', '-ww', '-z', page], { encoding: 'utf8' })
    assert.deepEqual([groff.stderr, groff.status], ['', 0])
    const man = spawnSync('man', ['--warnings=w', '-l', page], {
      encoding: 'utf8',
      env: { ...process.env, MANPAGER: 'cat', MANWIDTH: '80', LC_ALL: 'C.UTF-8' },
    })
    assert.deepEqual([man.stderr, man.status], ['', 0])
    assert.match(man.stdout, /--spooler-frequency SECONDS/)
    assert.ok(man.stdout.split('\n').every(line => line.length <= 80))
  })

  it('comes with the package', () => {
    const { man, files } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    assert.deepEqual(man, ['docs/man/spoold.1']) // npm links it only out of an array
    assert.ok(files.includes('docs/man'))
  })
})
