import assert from 'node:assert/strict'
import { readFileSync, statSync, unlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { LastRun } from '#src/base/task/last-run.js'
import type { Company } from '#src/base/task/outcome.js'
import {
  type Claims,
  type DirectoryClaimsOptions,
  openDirectoryClaims,
} from '#src/engines/spool/claims/claims.js'

export type EngineSettings = Partial<Omit<DirectoryClaimsOptions, 'spool'>>

export const POLICY = {
  maxAttempts: 0,
  maxCrashes: 3,
  backoff: 'fixed',
  delayMs: null,
  capMs: 1_200_000,
} as const

/** The defaults of the options. */
export const CLAIMS_DEFAULTS: Omit<DirectoryClaimsOptions, 'spool'> = {
  rules: { ordered: true, strictNames: false },
  frequencyMs: 30_000,
  locks: 'ofd',
  policy: POLICY,
  delivery: 'at-least-once',
  graceMs: 60_000,
  handlers: ['/app/handler.js'],
}

/** Opens the claims of a worker. */
export function openEngine(spool: string, settings: EngineSettings = {}): Promise<Claims> {
  return openDirectoryClaims({ ...CLAIMS_DEFAULTS, spool, ...settings })
}

export function claimOf(engine: Claims, ref: string, lastRun?: LastRun) {
  const claim = engine.claim(ref, lastRun)
  assert.ok(!('kind' in claim), 'kind' in claim ? `${claim.kind}: ${claim.detail}` : '')
  return claim
}

/** Claims a task and begins its run. */
export function beginOf(engine: Claims, ref: string, company: Company = 'alone') {
  const claim = claimOf(engine, ref)
  assert.equal(engine.begin(claim, company)?.detail, undefined)
  return claim
}

export function refusalOf(engine: Claims, ref: string) {
  const refusal = engine.claim(ref)
  assert.ok('kind' in refusal, 'it was claimed')
  return refusal
}

/** Imitates a crash: the file keeps its mark, but has no lock, because it gets a new inode. */
export function crash(spool: string, ref: string): void {
  const path = join(spool, ref)
  const bytes = readFileSync(path)
  const { atimeMs, mtimeMs } = statSync(path)
  unlinkSync(path)
  writeFileSync(path, bytes)
  utimesSync(path, atimeMs / 1000, mtimeMs / 1000) // not as Dates, which are rounded, possibly into the future
}
