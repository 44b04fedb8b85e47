// PORT QUEUE CONCURRENCY: a process as in BullMQ's manual, whose jobs do nothing.
import { Worker } from 'bullmq'

const [port, queue, concurrency] = process.argv.slice(2)
new Worker(queue, async () => {}, {
  connection: { host: '127.0.0.1', port: Number(port) },
  concurrency: Number(concurrency),
  removeOnComplete: { count: 0 },
})
