import type { BegunTask, RunEnd } from '../../base/task/report.js'
import type { DeadRun, Death } from '../../engines/claims.js'
import type { WorkerMessage } from '../ipc/messages.js'
import { endOf, type Tell, tellBegun, tellEnded } from '../tasks/lifecycle.js'
import { begunTask } from './named-tasks.js'
import type { Run } from './run.js'

/** Is told of each run of a named task. */
export interface RunFollower {
  /** Right before its function is called. */
  began(run: Run): void
  /** It is settled. */
  ended(run: Run, end: RunEnd): void
  /** An earlier run ended by the death of its process. */
  died(run: DeadRun, death: Death): void
}

/** Tells the master. */
export function followForMaster(send: (message: WorkerMessage) => void): RunFollower {
  return {
    began(run) {
      const task = begunTask(run.claim)
      if (task !== undefined) send({ type: 'run-began', number: run.number, task })
    },
    ended: ({ number }, { kind, atMs, detail }) =>
      send({ type: 'run-ended', number, end: { kind, atMs, detail } }),
    died(claim, death) {
      const task = begunTask(claim)
      if (task !== undefined) send({ type: 'run-died', task, end: endOf(death) })
    },
  }
}

/** Tells those who listen in the worker itself. */
export function followHere(tell: Tell, worker: string): RunFollower {
  const begun = new WeakMap<Run, BegunTask>()
  return {
    began(run) {
      const task = begunTask(run.claim)
      if (task === undefined) return
      begun.set(run, task)
      tellBegun(tell, worker, task)
    },
    ended(run, end) {
      const task = begun.get(run)
      if (task !== undefined) tellEnded(tell, worker, task, end)
    },
    died(claim, death) {
      const task = begunTask(claim)
      if (task !== undefined) tellEnded(tell, worker, task, endOf(death))
    },
  }
}
