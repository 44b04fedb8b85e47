import { messageOf } from '../../base/errors.js'
import { displayName } from '../../base/task/ref.js'
import type { AuditEntry } from '../../engines/spool/admin/audit.js'
import type { TaskStore } from '../../engines/task-store.js'
import { caller } from './caller.js'
import type { Output } from './output.js'

/** Whoever may act on the command line owns the spool, or is root. */
const ROLE = 'owner'

/**
 * Writes into the audit of a spool what a command is about to do. Where that is not possible, it is done all the same, with a
 * word about it: tasks must be removable on a full disk.
 */
export async function audit(
  store: TaskStore,
  about: Omit<AuditEntry, 'at' | 'who' | 'role'>,
  output: Pick<Output, 'complain'>,
): Promise<void> {
  try {
    await store.audit({ at: Date.now(), who: caller(), role: ROLE, ...about })
  } catch (error) {
    output.complain(`${displayName(store.spool)}: not in the audit: ${messageOf(error)}`)
  }
}
