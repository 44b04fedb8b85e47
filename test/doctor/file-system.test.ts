import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { checkMount } from '#src/doors/doctor/file-system.js'

/** Mounts that a test cannot make, as the kernel writes them (proc_pid_mountinfo(5)). */
const MOUNTINFO = `25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 25 0:40 / /var/spool/shared rw,relatime shared:7 - nfs4 server:/x rw,vers=4.2,local_lock=none
41 25 0:41 / /var/spool/alone rw,relatime shared:8 - nfs server:/y rw,nolock,local_lock=all
42 25 0:42 / /mnt/with\\040blank rw - fuse.sshfs host: rw
43 25 0:43 / /mnt/over rw - tmpfs none rw
44 43 8:2 / /mnt/over rw,noatime - xfs /dev/sdb rw
`

describe('the file system under a spool', () => {
  for (const [path, level, pattern] of [
    ['/var/spool/app', 'ok', /^ext4 on \/ \(rw,relatime\)$/],
    ['/var/spool/shared', 'warning', /^nfs4 on \/var\/spool\/shared: new files are noticed once per second/],
    ['/var/spool/shared/app', 'warning', /^nfs4 on /],
    ['/var/spool/sharedNot', 'ok', /^ext4 on \/ /],
    ['/var/spool/alone/app', 'warning', /^nfs on .*locks that only work on this machine/],
    ['/mnt/with blank/spool', 'warning', /^fuse\.sshfs on \/mnt\/with blank: /],
    ['/mnt/over/spool', 'ok', /^xfs on \/mnt\/over \(rw,noatime\)$/],
  ] as const)
    it(`is found for ${path}`, () => {
      const [diagnosis, ...more] = checkMount(path, MOUNTINFO)
      assert.equal(diagnosis?.level, level)
      assert.match(diagnosis?.text ?? '', pattern)
      assert.equal(diagnosis?.fix === undefined, level === 'ok')
      assert.deepEqual(more, [])
    })

  it('is not guessed when /proc does not list it', () => {
    assert.deepEqual([...checkMount('/var/spool/app', '')], [])
  })
})
