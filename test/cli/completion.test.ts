import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { inProcess } from '../helpers/cli.js'
import { skipUnless } from '../helpers/requires.js'
import { workspace } from '../helpers/workspace.js'

async function script(shell: string): Promise<{ directory: string; path: string }> {
  const { code, stdout } = await inProcess(['completion', shell])
  assert.equal(code, 0)
  const directory = workspace()
  const path = join(directory, `.script.${shell}`)
  writeFileSync(path, stdout)
  mkdirSync(join(directory, 'my spool'))
  writeFileSync(join(directory, 'my app.ini'), '')
  return { directory, path }
}

function run(command: string, args: readonly string[], cwd: string): string {
  const { stdout, stderr, status } = spawnSync(command, args, {
    cwd,
    encoding: 'utf8',
    timeout: 60_000,
    env: { ...process.env, HOME: cwd, TERM: 'xterm' },
  })
  assert.deepEqual([stderr, status], ['', 0])
  return stdout
}

describe('completion', () => {
  /** The words before the cursor, and what completes the last of them. */
  for (const [words, expected] of [
    [['compl'], ['completion']],
    [['ls', '--st'], ['--state']],
    [['ls', '--state', 're'], ['retrying']],
    [
      ['ls', '--sort', 'a'],
      ['age', 'attempts'],
    ],
    [
      ['purge', '--max'],
      ['--max-age', '--max-count'],
    ],
    [['completion', 'f'], ['fish']],
    [['help', 'compl'], ['completion']],
    [['hel'], ['help']],
    [['ls', 'my'], ['my spool']],
    [
      ['show', '--ini', 'my'],
      ['my app.ini', 'my spool'],
    ],
    [['--spooler-freq'], ['--spooler-frequency']],
    [['check', '--spooler-freq'], ['--spooler-frequency']],
    [['--spooler-lock', 'l'], ['lockfile']],
  ] as const) {
    it(`in bash: spoold ${words.join(' ')}`, { skip: skipUnless('bash') }, async () => {
      const { directory, path } = await script('bash')
      const probe = `source "$1"; shift; COMP_WORDS=(spoold "$@"); COMP_CWORD=$#; _spoold; printf '%s\\n' "\${COMPREPLY[@]}"`
      const found = run('bash', ['--norc', '-uc', probe, 'bash', path, ...words], directory)
      assert.deepEqual(found.trimEnd().split('\n').sort(), expected)
    })

    it(`in fish: spoold ${words.join(' ')}`, { skip: skipUnless('fish') }, async () => {
      const { directory, path } = await script('fish')
      const found = run(
        'fish',
        ['-c', 'source $argv[1]; complete -C $argv[2]', path, `spoold ${words.join(' ')}`],
        directory,
      )
      const offered = found
        .trimEnd()
        .split('\n')
        .map(line => (line.split('\t', 1)[0] ?? '').replace(/\/$/, ''))
      for (const each of expected) assert.ok(offered.includes(each), found)
      if (expected[0]?.startsWith('my') !== true) assert.deepEqual(offered.sort(), expected)
    })

    if (expected.length === 1)
      it(`in zsh: spoold ${words.join(' ')}`, { skip: skipUnless('zsh') }, async () => {
        const { directory, path } = await script('zsh')
        const probe = `
          zmodload zsh/zpty
          zpty z zsh -f -i
          zpty -w z 'PS1=; autoload -Uz compinit; compinit -u -D; source "${path}"; spoold() { print -r -- "<<$@[-1]>>" }; print READY'
          zpty -r -m z log '*READY*READY*'
          zpty -w z $'spoold ${words.join(' ')}\\t'
          zpty -r -m z log '*<<*>>*'
          print -r -- $log
          zpty -d z`
        const found = run('zsh', ['-fc', probe], directory)
        assert.equal(/<<(.*?)\/?>>/.exec(found)?.[1], expected[0], found)
      })
  }

  it('is offered for bash, zsh and fish, and refused for any other shell', async () => {
    const { code, stderr } = await inProcess(['completion', 'tcsh'])
    assert.deepEqual([code, stderr], [64, 'spoold: [USAGE] expected one of bash, zsh, fish, got "tcsh"\n'])
  })
})

describe('the help', () => {
  it('fits a terminal of 80 columns, in every command', async () => {
    const { stdout } = await inProcess(['--help'])
    const names = [...stdout.matchAll(/^ {2}([a-z0-9]+)(?: .*)?$/gm)].map(([, name = '']) => name)
    const commands = names.filter(name => name !== 'spoold' && name !== 'files')
    assert.ok(commands.includes('ls') && commands.includes('completion'), names.join())
    for (const args of [[], ...commands.map(name => [name])]) {
      const help = await inProcess([...args, '--help'], { screen: { columns: 80, hasColor: false } })
      const long = help.stdout.split('\n').filter(line => line.length > 80)
      assert.deepEqual(long, [])
    }
  })
})
