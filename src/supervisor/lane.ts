import type { Feed } from '../engines/feed.js'
import type { Ref } from '../task/ref.js'

/** Where a group of workers gets its tasks from. */
export interface Lane {
  /** How many could be taken now. It may be an estimate. */
  readonly ready: number
  /** The most urgent, at most `limit`. */
  take(limit: number): readonly Ref[]
}

/** All that is due. */
export function dueLane(feed: Feed): Lane {
  return {
    get ready() {
      return feed.counts().ready
    },
    take: limit => feed.take(limit),
  }
}

/**
 * What has to run alone. Tasks that began beside others when their process died are suspects: nobody knows which of them
 * it was, so none is counted. And what crashed while it was alone takes no others with it again.
 */
export function aloneLane(feed: Feed): Lane {
  return {
    get ready() {
      return feed.parkedFor('alone')
    },
    take: limit => feed.takeParked('alone', limit),
  }
}
