import assert from 'node:assert/strict'

/** The argument for `strace -y -e`: the calls that `assertAuditedBefore` reads. */
export const AUDITED_CALLS = 'trace=write,pwrite64,writev,fdatasync,unlink,unlinkat,rename,renameat,renameat2'

/** Asserts that the audit is written and on disk before anything is done to the file of this name. @param calls in order */
export function assertAuditedBefore(calls: readonly string[], name: string): void {
  const written = calls.findIndex(call => /write\(\d+<[^>]*\/audit>/.test(call))
  const synced = calls.findIndex(call => /fdatasync\(\d+<[^>]*\/audit>\) += 0/.test(call))
  // a record is written as a whole and then renamed; a task file is removed, or becomes a dead letter, by its name
  const done = calls.findIndex(call => /(?:unlink|rename)\w*\(/.test(call) && call.includes(name))
  assert.ok(written >= 0 && written < synced, `written in ${written}, on disk in ${synced}`)
  assert.ok(synced < done, `on disk in ${synced}, done in ${done}:\n${calls.join('\n')}`)
}
