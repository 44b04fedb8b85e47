import { execFileSync } from 'node:child_process'

/** Programs and rights that a test may need, and how to see whether they are there. */
const PROBES = {
  uwsgi: () => execFileSync('uwsgi', ['--plugin', 'python3', '--version'], { stdio: 'ignore' }),
  python3: () => execFileSync('python3', ['--version'], { stdio: 'ignore' }),
  root: () => {
    if (process.getuid?.() !== 0) throw new Error('not root')
  },
  mount: () => execFileSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'], { stdio: 'ignore' }),
  mkfifo: () => execFileSync('mkfifo', ['--version'], { stdio: 'ignore' }),
  strace: () => execFileSync('strace', ['-V'], { stdio: 'ignore' }),
} as const

export type Requirement = keyof typeof PROBES

/**
 * For the `skip` option of a test: false when everything is there, else the reason. What SPOOLD_TEST_REQUIRE names
 * (`uwsgi,python3`) must be there, so that a CI in which it is missing fails instead of skipping.
 */
export function skipUnless(...needs: Requirement[]): string | false {
  const missing = needs.filter(need => !isThere(need))
  const demanded = (process.env.SPOOLD_TEST_REQUIRE ?? '').split(',')
  const broken = missing.filter(need => demanded.includes(need))
  if (broken.length > 0) throw new Error(`SPOOLD_TEST_REQUIRE demands ${broken.join(', ')}, which is missing`)
  return missing.length === 0 ? false : `needs ${missing.join(', ')}`
}

function isThere(need: Requirement): boolean {
  try {
    PROBES[need]()
    return true
  } catch {
    return false
  }
}

/** More cases, for `npm run test:long`. */
export const isLong = process.env.SPOOLD_TEST_LONG === '1'
