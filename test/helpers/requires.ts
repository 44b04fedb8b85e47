import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { rehearseBoot } from './booted-systemd.js'
import { ENVIRONMENTS, isInstalled, PYTHON, python, type Version } from './python.js'

/** Debian's uWSGI. */
export const UWSGI = '/usr/bin/uwsgi'

/** Programs and privileges that a test may need, and how to detect them. */
const PROBES = {
  uwsgi: () => execFileSync(UWSGI, ['--plugin', 'python3', '--version'], { stdio: 'ignore' }),
  'uwsgi-perl': () => execFileSync(UWSGI, ['--plugin', 'psgi', '--version'], { stdio: 'ignore' }),
  'uwsgi-ruby': () => execFileSync(UWSGI, ['--plugin', 'rack_ruby31', '--version'], { stdio: 'ignore' }),
  python3: () => execFileSync(PYTHON, ['--version'], { stdio: 'ignore' }),
  'python3-venv': () => execFileSync(PYTHON, ['-c', 'import ensurepip, venv'], { stdio: 'ignore' }),
  root: () => {
    if (process.getuid?.() !== 0) throw new Error('not root')
  },
  mount: () => execFileSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'], { stdio: 'ignore' }),
  fuse: () =>
    execFileSync('unshare', ['-m', 'sh', '-c', 'bindfs --no-allow-other /mnt /mnt && umount /mnt'], {
      stdio: 'ignore',
    }),
  script: () => execFileSync('script', ['-qec', 'true', '/dev/null'], { stdio: 'ignore' }),
  mkfifo: () => execFileSync('mkfifo', ['--version'], { stdio: 'ignore' }),
  tmux: () => execFileSync('tmux', ['-V'], { stdio: 'ignore' }),
  strace: () => execFileSync('strace', ['-V'], { stdio: 'ignore' }),
  systemd: () => {
    execFileSync('systemd-notify', ['--version'], { stdio: 'ignore' })
    execFileSync('systemd-analyze', ['--version'], { stdio: 'ignore' })
  },
  'systemd-boot': rehearseBoot,
  logrotate: () => execFileSync('logrotate', ['--version'], { stdio: 'ignore' }),
  zsh: () => execFileSync('zsh', ['-c', 'zmodload zsh/zpty'], { stdio: 'ignore' }),
  fish: () => execFileSync('fish', ['--version'], { stdio: 'ignore' }),
  man: () => {
    execFileSync('man', ['--version'], { stdio: 'ignore' })
    execFileSync('groff', ['--version'], { stdio: 'ignore' })
  },
  'redis-server': () => execFileSync('redis-server', ['--version'], { stdio: 'ignore' }),
  netns: () => {
    const name = `spoold-test-${process.pid}-probe`
    execFileSync('ip', ['netns', 'add', name], { stdio: 'ignore' })
    execFileSync('ip', ['netns', 'del', name], { stdio: 'ignore' })
  },
  promtool: () => execFileSync('promtool', ['--version'], { stdio: 'ignore' }),
  chromium: () => execFileSync('/usr/bin/chromium-headless-shell', ['--version'], { stdio: 'ignore' }),
  socat: () => execFileSync('socat', ['-V'], { stdio: 'ignore' }),
  // Languages, in the versions that the examples require.
  perl: () => execFileSync('perl', ['-MTime::HiRes', '-e', 'use 5.014'], { stdio: 'ignore' }),
  ruby: () => execFileSync('ruby', ['-rsocket', '-e', 'exit RUBY_VERSION >= "2.7"'], { stdio: 'ignore' }),
  php: () => execFileSync('php', ['-r', 'exit((int) (PHP_VERSION_ID < 80100));'], { stdio: 'ignore' }),
  bash: () => execFileSync('bash', ['-c', '[ -n "$SRANDOM" ]'], { stdio: 'ignore' }),
  go: () => anyOf(['go', 'version'], ['gccgo', '--version']),
  rustc: () => execFileSync('rustc', ['--version'], { stdio: 'ignore' }),
  cc: () => execFileSync('cc', ['--version'], { stdio: 'ignore' }),
  javac: () => execFileSync('javac', ['--version'], { stdio: 'ignore' }),
  mcs: () => {
    execFileSync('mcs', ['--version'], { stdio: 'ignore' })
    execFileSync('mono', ['--version'], { stdio: 'ignore' })
  },
} as const

function anyOf(...commands: ReadonlyArray<readonly [string, ...string[]]>): void {
  if (!commands.some(([command, ...args]) => spawnSync(command, args, { stdio: 'ignore' }).status === 0))
    throw new Error('none is there')
}

/** A name in PROBES, an interpreter such as `python3.12`, or a virtual environment of test/python such as `venv:uwsgi`. */
export type Requirement = keyof typeof PROBES | `python${Version}` | `venv:${string}`

/** Returns the function that detects a requirement; undefined for a name that is none. */
function probeOf(need: string): (() => void) | undefined {
  if (Object.hasOwn(PROBES, need)) return PROBES[need as keyof typeof PROBES]
  const [, version] = /^python([23]\.\d+)$/.exec(need) ?? []
  if (version !== undefined)
    return () => execFileSync(python(version as Version), ['--version'], { stdio: 'ignore' })
  const [, name = ''] = /^venv:(.+)$/.exec(need) ?? []
  if (!ENVIRONMENTS.has(name)) return undefined
  return () => {
    if (!isInstalled(name)) throw new Error('node test/python/install.mjs makes it')
  }
}

export const isRequirement = (name: string): name is Requirement => probeOf(name) !== undefined

/**
 * Returns the `skip` option of a test: false if everything is available, else the reason. Requirements in
 * SPOOLD_TEST_REQUIRE (`uwsgi,python3`) must be available, so that a CI without them fails instead of skipping.
 */
export function skipUnless(...needs: Requirement[]): string | false {
  const missing = needs.filter(need => !isThere(need))
  const demanded = (process.env.SPOOLD_TEST_REQUIRE ?? '').split(',')
  const broken = missing.filter(need => demanded.includes(need))
  if (broken.length > 0) throw new Error(`SPOOLD_TEST_REQUIRE demands ${broken.join(', ')}, which is missing`)
  return missing.length === 0 ? false : `needs ${missing.join(', ')}`
}

/** True if a requirement is available. If so, that is cached in a directory that test/run.mjs makes per run. */
export function isThere(need: Requirement): boolean {
  const { SPOOLD_TEST_PROBES: directory } = process.env
  const found = directory === undefined ? undefined : join(directory, need)
  if (found !== undefined && existsSync(found)) return true
  const probe = probeOf(need)
  if (probe === undefined) throw new Error(`${need}: expected a requirement of test/helpers/requires.ts`)
  try {
    probe()
    if (found !== undefined) writeFileSync(found, '')
    return true
  } catch {
    return false
  }
}

/** True if more cases are to run: `npm run test:long`. */
export const isLong = process.env.SPOOLD_TEST_LONG === '1'
