import { messageOf } from '../../base/errors.js'
import { displayName } from '../../base/task/ref.js'
import type { AuditEntry } from '../../engines/spool/admin/audit.js'
import type { TaskStore } from '../../engines/task-store.js'
import { caller } from './caller.js'
import type { Output } from './output.js'

/** The role of everybody on the command line: only the owner of the spool and root may act there. */
const ROLE = 'owner'

/**
 * Writes into the audit of a spool what a command is about to do. If that fails, says so on standard error, and the command goes
 * on, because tasks must be removable on a full disk.
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
