/** What the master knows about how a task's last run was interrupted. Whether there was such a run is in the file. */
export type LastRun =
  /** Through no fault of the task: treat it as if it had not started. */
  | { readonly kind: 'blameless' }
  /** People cancelled it: it does not run again. `detail` is for its dead letter. */
  | { readonly kind: 'cancelled'; readonly detail: string }
  /** `cause`: how its process died, as the end of a sentence that begins with "it". */
  | { readonly kind: 'crash'; readonly cause: string }
