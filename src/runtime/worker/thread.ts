import { parentPort, workerData } from 'node:worker_threads'
import { setImmediate } from '../../base/own-clock.js'
import { systemCalls } from '../../system/libc.js'
import { frameOf, MasterDecoder } from '../ipc/frames.js'
import { Marks } from '../ipc/marks.js'
import { THREAD_IS_UP } from '../ipc/messages.js'
import { offerDaemon } from '../tasks/daemon.js'
import { sendNothing } from './road.js'
import { Worker } from './worker.js'

/** The entry point of a worker in a thread. What its tasks print is printed by the program itself. */

systemCalls() // at once, because koffi ends the process if a thread is ended while koffi is being loaded in it

const post = parentPort?.postMessage.bind(parentPort)
post?.(THREAD_IS_UP)
if (parentPort !== null)
  parentPort.postMessage = sendNothing('parentPort.postMessage', text => worker.printed('stderr', text))

const decoder = new MasterDecoder()
const worker = new Worker({
  marks: new Marks({ memory: workerData }),
  entered: (_options, _signals, daemon) => offerDaemon(daemon),
  send(message, sent) {
    post?.(frameOf(decoder.token, message))
    setImmediate(sent)
  },
  exit: code => process.exit(code), // ends the thread only
})

parentPort?.on('message', (frame: Uint8Array) => {
  for (const message of decoder.push(Buffer.from(frame))) worker.hear(message)
})
process.on('uncaughtException', thrown => worker.fault(thrown))
