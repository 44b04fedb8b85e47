/** An act on the processes of a daemon at a random moment. */
export type Act =
  | 'kill-worker'
  | 'kill-master'
  | 'kill-all'
  | 'kill-below' // an interpreter or a program
  | 'kill-uwsgi'
  | 'pause-worker'
  | 'pause-master'
  | 'pause-below'
  | 'stop'
  | 'quit'
  | 'reload'

export interface Variant {
  readonly language: 'js' | 'python' | 'shell'
  readonly ini: Readonly<Record<string, string | number | boolean>>
  /** The relative frequency of each act. */
  readonly acts: Readonly<Partial<Record<Act, number>>>
  /** Where the spool is; by default in memory. */
  readonly base?: string
  /** The mean pause between two tasks of the fastest writer. */
  readonly pauseMs: number
  /** If given, handlers return a promise for every task, which takes up to this time. */
  readonly promisesMs?: number
  /** True if tasks are claimed with leases, so that those of a killed process stay locked for a minute. */
  readonly hasLeases?: boolean
  /** True if a uWSGI, which does not know "at most once", runs tasks of the same directory. */
  readonly hasUwsgi?: boolean
}
