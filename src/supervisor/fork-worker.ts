import { type ChildProcess, fork } from 'node:child_process'
import { entryFile } from '../base/package-root.js'
import type { WorkerOptions } from '../ipc/messages.js'
import type { HostMessagesOptions } from './host-messages.js'

const STDERR = 2
const ENTRY = entryFile('worker')

/** What a worker process has from its first moment on. */
export interface ForkOptions {
  /** Where its output goes, and that of the handlers. */
  readonly logFd: number
  /** Memory for its hosts: the files behind its channel (ipc/messages.ts, FIRST_AREA_FD). */
  readonly areas: readonly number[]
}

/** How a worker process is started, besides what it is told. */
export interface SpawnOptions extends ForkOptions {
  readonly worker: WorkerOptions
  /** What handlers ask of the master. */
  readonly answer: HostMessagesOptions['answer']
  /** Has a process that was forked ahead, or none any more. */
  readonly spare: { take(): ChildProcess | undefined } | undefined
}

export function forkWorker({ logFd, areas }: ForkOptions): ChildProcess {
  return fork(ENTRY, [], {
    stdio: ['ignore', logFd === STDERR ? 'inherit' : logFd, logFd, 'ipc', ...areas],
    execArgv: process.execArgv.filter(arg => !arg.startsWith('--inspect')),
  })
}
