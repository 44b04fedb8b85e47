import { readdirSync, readFileSync } from 'node:fs'
import { libc } from '../../system/libc.js'

/**
 * What a shell, a wrapper or cron left open is for no process that this one starts. Nothing is closed: a lock that `flock`
 * holds for us stays. (Node marks the lowest descriptors, up to the first gap above 15.)
 *
 * @returns those that stay open for all, and why; none as a rule
 */
export function passNothingOn(): { readonly left: readonly number[]; readonly because?: unknown } {
  const left = descriptors().filter(fd => fd > 2 && isPassedOn(fd))
  if (left.length === 0) return { left }
  try {
    libc().keepFromChildren(3)
    return { left: [] }
  } catch (because) {
    return { left, because }
  }
}

function descriptors(): number[] {
  try {
    return readdirSync('/proc/self/fd').map(Number)
  } catch {
    return [] // no Linux
  }
}

const O_CLOEXEC = 0o2000000

function isPassedOn(fd: number): boolean {
  try {
    const [, flags = ''] = /^flags:\s*([0-7]+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1')) ?? []
    return flags !== '' && (Number.parseInt(flags, 8) & O_CLOEXEC) === 0
  } catch {
    return false // it was that of the list
  }
}

/** The sockets passed by systemd (sd_listen_fds(3)). The variables are removed so that no child claims the sockets. */
export function takeInheritedSockets(): number[] {
  const { LISTEN_PID, LISTEN_FDS } = process.env
  for (const name of ['LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES']) delete process.env[name]
  const count = Number(LISTEN_FDS)
  if (Number(LISTEN_PID) !== process.pid || !Number.isInteger(count) || count <= 0) return []
  return Array.from({ length: Math.min(count, 1024) }, (_, i) => 3 + i)
}
