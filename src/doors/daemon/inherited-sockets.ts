/** The sockets passed by systemd (sd_listen_fds(3)). The variables are removed so that no child claims the sockets. */
export function takeInheritedSockets(): number[] {
  const { LISTEN_PID, LISTEN_FDS } = process.env
  for (const name of ['LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES']) delete process.env[name]
  const count = Number(LISTEN_FDS)
  if (Number(LISTEN_PID) !== process.pid || !Number.isInteger(count) || count <= 0) return []
  return Array.from({ length: Math.min(count, 1024) }, (_, i) => 3 + i)
}
