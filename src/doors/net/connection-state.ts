/**
 * open: takes packets · body: takes the body of one · finishing: takes no further request, and ends what has started ·
 * finishing-body: the same, in a body · parting: has answered everything, and waits for the other end to close · closed.
 */
export type ConnectionState = 'open' | 'body' | 'finishing' | 'finishing-body' | 'parting' | 'closed'

export type ConnectionChange = 'body-begins' | 'body-ended' | 'finish' | 'answered' | 'ended'

const NEXT: Readonly<Record<ConnectionState, { readonly [change in ConnectionChange]?: ConnectionState }>> = {
  open: { 'body-begins': 'body', finish: 'finishing', answered: 'parting', ended: 'closed' },
  body: { 'body-ended': 'open', finish: 'finishing-body', ended: 'closed' },
  finishing: { 'body-begins': 'finishing-body', answered: 'parting', ended: 'closed' },
  'finishing-body': { 'body-ended': 'finishing', ended: 'closed' },
  parting: { ended: 'closed' },
  closed: {},
}

/** What it is after a change; the same, where the change means nothing any more. */
export function changed(state: ConnectionState, change: ConnectionChange): ConnectionState {
  return NEXT[state][change] ?? state
}
