/**
 * The share of tasks that find all servers busy, of those that arrive at random (Erlang's C formula).
 *
 * @param load how many servers would be busy all the time: arrivals per second times seconds per run
 */
function shareQueued(servers: number, load: number): number {
  if (load >= servers) return 1
  let blocked = 1 // Erlang's B formula, which counts up
  for (let count = 1; count <= servers; count++) blocked = (load * blocked) / (count + load * blocked)
  return blocked / (1 - (load / servers) * (1 - blocked))
}

/** How likely it is, by chance, that so many tasks wait. */
export function chanceOfQueue(servers: number, load: number, waiting: number): number {
  return shareQueued(servers, load) * Math.min(1, load / servers) ** waiting
}

/**
 * How many servers it takes so that no more than `share` of the tasks wait longer than `wait` seconds. Where run times are
 * not exponential, waits are stretched as Allen and Cunneen have it.
 *
 * @param seconds how long a run takes
 * @param variability squared deviation over squared mean of the run times
 */
export function serversFor(
  load: number,
  seconds: number,
  variability: number,
  wait: number,
  share: number,
  most: number,
): number {
  const stretch = Math.max(0.1, (1 + variability) / 2)
  for (let servers = Math.max(1, Math.ceil(load)); servers < most; servers++) {
    const late = shareQueued(servers, load) * Math.exp((-(servers - load) * wait) / (seconds * stretch))
    if (late <= share) return servers
  }
  return most
}
