import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { childrenOf, TestProcess } from './process.js'
import { until } from './until.js'
import { ROOT, workspace } from './workspace.js'

/** The project and Node as the machine below has them. */
const PROJECT = '/opt/spoold'
const NODE = '/opt/node'
export const SPOOLD = `${NODE} ${PROJECT}/bin/spoold.js`

/**
 * Boots systemd in namespaces of its own: on a copy of this machine's files, of which only the changes take room, without a
 * network, and with its own control groups. $1 is an empty directory, $2 the project, $3 Node.
 */
const BOOT = `
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/root" "$1/upper" "$1/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mkdir -p "$1/root${PROJECT}"
mount --bind "$2" "$1/root${PROJECT}"
cd "$1/root"
touch .${NODE}
mount --bind "$3" .${NODE}
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t tmpfs tmpfs sys/fs/cgroup
mkdir sys/fs/cgroup/systemd sys/fs/cgroup/unified
mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
mount -t cgroup2 cgroup2 sys/fs/cgroup/unified
mount -t tmpfs tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do touch dev/$name; mount --bind /dev/$name dev/$name; done
mkdir dev/pts
ln -s pts/ptmx dev/ptmx
for unit in systemd-remount-fs systemd-sysctl systemd-tmpfiles-setup systemd-udevd systemd-udev-trigger; do
  ln -sf /dev/null etc/systemd/system/$unit.service
done
: >etc/fstab
: >etc/machine-id
mkdir old
pivot_root . old
umount -l old
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=basic.target
`
const OF_ITS_OWN = ['--mount', '--pid', '--fork', '--kill-child', '--uts', '--ipc', '--net', '--cgroup']

/** Does everything but the boot. @throws Error if that fails */
export function rehearseBoot(): void {
  const rehearsal = BOOT.replace(/^exec .*$/m, '')
  execFileSync('unshare', [...OF_ITS_OWN, 'sh', '-c', rehearsal, 'sh', '/mnt', ROOT, process.execPath], {
    stdio: 'ignore',
  })
}

/** A systemd that runs as if on a machine of its own, until the tests of the suite have ended that has made it. */
export class BootedSystemd {
  readonly #machine = new TestProcess('unshare', [
    ...OF_ITS_OWN,
    ...['sh', '-c', BOOT, 'sh', workspace(), ROOT, process.execPath],
  ])

  /** Resolves when systemd has booted. */
  async ready(): Promise<void> {
    await until('systemd has booted', () =>
      /^(running|degraded)$/m.test(this.try('systemctl is-system-running')),
    )
  }

  /** Runs a shell script. @returns its standard output */
  run(script: string): string {
    return execFileSync('nsenter', this.#enter(script), { encoding: 'utf8', cwd: '/' })
  }

  /** The same for a script that may fail. @returns both outputs */
  try(script: string): string {
    const { stdout, stderr } = spawnSync('nsenter', this.#enter(script), { encoding: 'utf8', cwd: '/' })
    return `${stdout}${stderr}`
  }

  #enter(script: string): string[] {
    return ['-t', String(this.#pid), '--all', 'sh', '-ec', script]
  }

  write(path: string, text: string): void {
    writeFileSync(this.#at(path), text)
  }

  /** Returns the text of a file, or nothing if there is none. */
  read(path: string): string {
    try {
      return readFileSync(this.#at(path), 'utf8')
    } catch {
      return ''
    }
  }

  /** The first process of the machine. */
  get #pid(): number {
    return childrenOf(this.#machine.pid)[0] ?? 0
  }

  #at(path: string): string {
    return join(`/proc/${this.#pid}/root`, path)
  }
}
