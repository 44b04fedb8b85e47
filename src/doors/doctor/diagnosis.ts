import { messageOf, SpooldError } from '../../base/errors.js'

export type Level = 'ok' | 'note' | 'warning' | 'error'

/** What was examined. */
type Topic =
  | 'configuration'
  | 'node'
  | 'user'
  | 'handlers'
  | 'spool' // does it exist, and can it be used
  | 'file-system'
  | 'room'
  | 'locks'
  | 'clock'
  | 'events'
  | 'neighbours' // which other processes use it
  | 'limits'
  | 'socket'
  | 'file' // that the configuration names, and spoold writes or reads

export interface Diagnosis {
  readonly level: Level
  readonly topic: Topic
  /** The path, or another name, of the subject. */
  readonly about: string
  readonly text: string
  /** The command that fixes it. */
  readonly fix?: string
}

/** Returns the diagnosis of an error that a check threw. Errors of spools say what fixes them. */
export function diagnosisOf(topic: Topic, about: string, thrown: unknown): Diagnosis {
  const { fault, fix } = thrown instanceof SpooldError ? thrown.details : {}
  return {
    level: 'error',
    topic,
    about,
    text: typeof fault === 'string' ? fault : messageOf(thrown),
    ...(typeof fix === 'string' ? { fix } : {}),
  }
}
