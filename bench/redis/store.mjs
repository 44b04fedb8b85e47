// WHO PLACE QUEUE WAY COUNT CALLERS: stores tasks as spoold or as BullMQ does, in the Redis on a port, or as spoold does in a
// directory. Prints how many per second, and its CPU time per task in µs, without its start and a short warm-up.
import { Queue } from 'bullmq'
import { Batch, spool } from '../../dist/index.js'

const [who, place, name, way, total, callers] = process.argv.slice(2)
const [count, atOnce] = [Number(total), Number(callers)]
const BATCH = 1000
const WARM_UP = 2000

const task = n => ({ hello: 'world', n: String(n), foo: 'bar' })
/** The last priority of BullMQ: spoold's tasks without a priority have the one after that. */
const options = { priority: 2_097_151, removeOnComplete: true }

const DESTINATIONS = {
  spoold: { spooler: `redis://127.0.0.1:${place}/0/${name}` },
  directory: { spooler: `${place}/${name}`, sync: false },
  'synced directory': { spooler: `${place}/${name}` },
}
const to = DESTINATIONS[who]
const queue =
  who === 'bullmq' ? new Queue(name, { connection: { host: '127.0.0.1', port: Number(place) } }) : undefined

const WAYS = {
  spoold: {
    one: n => spool(task(n), to),
    async many(from) {
      const batch = new Batch(to)
      for (let n = from; n < from + BATCH; n++) batch.add(task(n))
      await batch.spool()
    },
  },
  bullmq: {
    one: n => queue.add('task', task(n), options),
    many: from =>
      queue.addBulk(
        Array.from({ length: BATCH }, (_, i) => ({ name: 'task', data: task(from + i), opts: options })),
      ),
  },
}

async function store(count) {
  const step = way === 'many' ? BATCH : 1
  let next = 0
  const caller = async () => {
    while (next < count) {
      next += step
      await WAYS[who === 'bullmq' ? who : 'spoold'][way](next - step)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, caller))
}

await store(WARM_UP)
const [begun, before] = [performance.now(), process.cpuUsage()]
await store(count)
const { user, system } = process.cpuUsage(before)
const figures = { rate: (count * 1000) / (performance.now() - begun), cpu: (user + system) / count }
process.stdout.write(JSON.stringify(figures), () => process.exit(0))
