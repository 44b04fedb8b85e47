/** What the master knows of how a task's last run was cut short. The file itself tells whether there was such a run. */
export type LastRun =
  /** Through no fault of the task: as if it had not begun. */
  | { readonly kind: 'blameless' }
  /** `cause`: how its process died, as the end of a sentence that begins with "it". */
  | { readonly kind: 'crash'; readonly cause: string }
