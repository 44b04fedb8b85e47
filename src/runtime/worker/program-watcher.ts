import { createInterface } from 'node:readline'

/**
 * The entry point of a process that watches a worker whose claims are leases. It kills the worker's programs when the
 * worker dies. It also kills them when the worker falls silent, because a lease that is not renewed is taken over.
 */

/** The worker writes a line every 5 s and renews its leases every 10 s. Other processes can take the leases over after 60 s. */
const MAX_SILENCE_MS = 35_000

const groups = new Set<number>()
let heardAt = performance.now()

function killAll(): void {
  for (const group of groups)
    try {
      process.kill(-group, 'SIGKILL')
    } catch {} // the group has ended
  groups.clear()
}

createInterface(process.stdin)
  .on('line', line => {
    const [verb, group] = line.split(' ')
    heardAt = performance.now()
    if (verb === 'start') groups.add(Number(group))
    if (verb === 'end') groups.delete(Number(group))
  })
  .on('close', () => {
    killAll()
    process.exit()
  })

setInterval(() => {
  if (performance.now() > heardAt + MAX_SILENCE_MS) killAll()
}, 1000)
