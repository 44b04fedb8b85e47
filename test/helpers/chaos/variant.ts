/** What is done to the processes of a daemon at a random moment. */
export type Act =
  | 'kill-worker'
  | 'kill-master'
  | 'kill-all'
  | 'kill-below' // an interpreter, or a program
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
  /** How often each is done, relative to the others. */
  readonly acts: Readonly<Partial<Record<Act, number>>>
  /** Where the spool is; in memory when nothing is said. */
  readonly base?: string
  /** Between two tasks of the fastest writer. */
  readonly pauseMs: number
  /** Handlers return a promise for every task, which takes up to so long. */
  readonly promisesMs?: number
  /** What a killed process had stays locked for a minute. */
  readonly hasLeases?: boolean
  /** A uWSGI runs tasks of the same directory, and it knows no "at most once". */
  readonly hasUwsgi?: boolean
}
