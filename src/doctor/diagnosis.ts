import { messageOf, SpooldError } from '../base/errors.js'

export type Level = 'ok' | 'note' | 'warning' | 'error'

/** What was examined. */
export type Topic =
  | 'configuration'
  | 'node'
  | 'user'
  | 'handlers'
  | 'spool' // is it there, and may it be used
  | 'file-system'
  | 'room'
  | 'locks'
  | 'clock'
  | 'events'
  | 'neighbours' // who else works there
  | 'limits'
  | 'socket'

export interface Diagnosis {
  readonly level: Level
  readonly topic: Topic
  /** A path, or another name of what it is about. */
  readonly about: string
  readonly text: string
  /** The command that fixes it. */
  readonly fix?: string
}

/** What a check threw; the errors of a spool say what fixes them. */
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
