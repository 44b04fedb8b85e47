import assert from 'node:assert/strict'
import type { Claim, Claims } from '#src/engines/claims.js'
import { openDirectoryClaims } from '#src/engines/directory/claims.js'
import { DirectoryEnqueuer } from '#src/engines/directory/enqueuer.js'
import { DirectoryFeed } from '#src/engines/directory/feed.js'
import { DirectoryUpkeep } from '#src/engines/directory/upkeep.js'
import type { Enqueuer } from '#src/engines/enqueuer.js'
import type { Feed } from '#src/engines/feed.js'
import { MemoryClaims } from '#src/engines/memory/claims.js'
import { MemoryEnqueuer } from '#src/engines/memory/enqueuer.js'
import { MemoryFeed } from '#src/engines/memory/feed.js'
import { MemorySpool } from '#src/engines/memory/spool.js'
import { MemoryUpkeep } from '#src/engines/memory/upkeep.js'
import type { Upkeep } from '#src/engines/upkeep.js'
import { Emitter } from '#src/events/emitter.js'
import type { LastRun } from '#src/task/last-run.js'
import type { Company } from '#src/task/outcome.js'
import type { Ref } from '#src/task/ref.js'
import { CLAIMS_DEFAULTS, crash, type EngineSettings } from '../../helpers/engine.js'
import { spoolDirectory } from '../../helpers/workspace.js'

/** One empty spool of an engine, and every role that the contracts have for it. */
export interface TestSpool {
  readonly enqueuer: Enqueuer
  /** Not opened yet. */
  feed(): Feed
  /** Each as of a worker of its own. */
  claims(settings?: EngineSettings): Promise<Claims>
  upkeep(): Upkeep
  /** Whether a claim expires unless it is renewed, even while its worker lives. */
  readonly isLeasing: boolean
  /** The worker of these claims is gone; `ref` is what it held. */
  died(claims: Claims, ref: Ref): void
}

export interface TestSpoolOptions {
  /** How long a claim lasts if it is not renewed; only engines whose claims are leases use it. */
  readonly leaseMs?: number
}

/** The conformance suites run over each of these. They await every answer, and take no ref for a name. */
export const ENGINES: Readonly<Record<string, (options?: TestSpoolOptions) => TestSpool>> = {
  directory() {
    const spool = spoolDirectory()
    const { rules, frequencyMs } = CLAIMS_DEFAULTS
    return {
      enqueuer: new DirectoryEnqueuer(spool, false),
      feed: () => new DirectoryFeed({ spool, rules, order: 'age', frequencyMs, watch: 'off' }, new Emitter()),
      claims: settings => openDirectoryClaims({ ...CLAIMS_DEFAULTS, spool, ...settings }),
      upkeep: () => new DirectoryUpkeep(spool),
      isLeasing: false,
      died: (_, ref) => crash(spool, ref),
    }
  },
  memory(options) {
    const spool = new MemorySpool('memory:test', options)
    return {
      enqueuer: new MemoryEnqueuer(spool),
      feed: () => new MemoryFeed(spool, CLAIMS_DEFAULTS.frequencyMs),
      claims: async settings => new MemoryClaims(spool, { ...CLAIMS_DEFAULTS, ...settings }),
      upkeep: () => new MemoryUpkeep(spool),
      isLeasing: true,
      died(claims) {
        assert.ok(claims instanceof MemoryClaims)
        claims.abandon()
      },
    }
  },
}

/** The refs of all tasks that are due, as a master gets them. */
export async function refsOf(spool: TestSpool): Promise<readonly Ref[]> {
  const feed = spool.feed()
  await feed.open(() => {})
  const refs = feed.take(1000)
  feed.close()
  return refs
}

export async function claimOf(claims: Claims, ref: Ref, lastRun?: LastRun): Promise<Claim> {
  const claim = await claims.claim(ref, lastRun)
  assert.ok(!('kind' in claim), 'kind' in claim ? `${claim.kind}: ${claim.detail}` : '')
  return claim
}

/** A claim whose run has begun. */
export async function beginOf(claims: Claims, ref: Ref, company: Company = 'alone'): Promise<Claim> {
  const claim = await claimOf(claims, ref)
  assert.equal(await claims.begin(claim, company), undefined)
  return claim
}

export async function refusalOf(claims: Claims, ref: Ref) {
  const report = await claims.claim(ref)
  assert.ok('kind' in report, 'it was claimed')
  return report
}
