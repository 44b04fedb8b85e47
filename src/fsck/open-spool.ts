import { lstatSync } from 'node:fs'
import { openSpool } from '../spool/admin/change.js'
import { type FailureOptions, Failures } from '../spool/claims/failures.js'
import { DeadLetters } from '../spool/dead-letters.js'
import type { Locker } from '../spool/locker.js'
import { neighboursOf } from '../spool/neighbours.js'
import type { Owner } from '../spool/permissions.js'
import { Records } from '../spool/records.js'
import { toByteString } from '../task/ref.js'
import type { ExaminedSpool } from './examined-spool.js'
import type { Finding } from './finding.js'

export interface ExaminedSpoolOptions
  extends Pick<ExaminedSpool, 'rules' | 'graceMs' | 'idTtlMs'>,
    Omit<FailureOptions, 'spool'> {
  /** Whose daemon works there; null: the owner's of the directory. */
  readonly user: Owner | null
}

/** @param spool its real path */
export function openExaminedSpool(
  spool: string,
  options: ExaminedSpoolOptions,
): { readonly place: ExaminedSpool; readonly user: Owner; readonly inUse: readonly Finding[] } {
  const { uid, gid } = lstatSync(spool)
  const user = options.user ?? { uid, gid }
  const bytes = toByteString(spool)
  const neighbours = neighboursOf(bytes)
  let locker: Promise<Locker> | undefined
  const place: ExaminedSpool = {
    spool: bytes,
    user,
    rules: options.rules,
    graceMs: options.graceMs,
    idTtlMs: options.idTtlMs,
    isInUse: neighbours.length > 0,
    records: new Records(bytes),
    letters: new DeadLetters(bytes),
    failures: new Failures({ ...options, spool: bytes }),
    locker: () => (locker ??= openSpool(spool).then(opened => opened.locker)),
  }
  const inUse = neighbours.map(({ pid, command, workers }) => ({
    kind: 'in-use' as const,
    path: '',
    meaning: `pid ${pid} (${command})${workers === 0 ? '' : ` with ${workers} worker${workers === 1 ? '' : 's'}`} works here, and the runs of its workers are its business`,
    fix: '',
    isNote: true as const,
  }))
  return { place, user, inUse }
}
