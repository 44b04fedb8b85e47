/** Why a task was buried. */
export const BURY_REASONS = [
  'attempts', // reached spooler-max-attempts failed runs
  'crashes', // crashed its process spooler-max-crashes times
  'asked', // the handler asked for it
  'cancelled', // people asked for it: `spoold cancel`
  'outcome-unknown', // runs at most once, and its process died during the run
  'malformed', // not a spool packet
  'incomplete', // shorter than its own header says
  'unknown', // the reason was lost; written by fsck
] as const
export type BuryReason = (typeof BURY_REASONS)[number]
