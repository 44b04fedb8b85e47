import { type Ref, toByteString } from '../../base/task/ref.js'
import type { Found, FreeSlots, Holder } from '../../base/task/report.js'
import type { SlotWish } from '../../base/task/terms.js'
import type { Purged, PurgeLimits, SweepAges, Swept } from '../contracts/upkeep.js'

/**
 * The work on the files of a spool's tasks that a master hands over, because it opens none of them and waits for no disk. A
 * process aside does this work, or the master's own process where there is none. Arguments and results are JSON; `spool` is
 * a real path. Each module is imported on first use, because otherwise every start would wait for it.
 */
const WORK = {
  async look(spool: string, refs: readonly Ref[]): Promise<Found[]> {
    const { lookAtTasks } = await import('./peek.js')
    return lookAtTasks(spool, refs)
  },

  async later(spool: string, refs: readonly Ref[], sinceMs: number): Promise<[place: number, Found][]> {
    const { lookAtLater } = await import('./peek.js')
    return lookAtLater(toByteString(spool), refs, sinceMs)
  },

  async holder(spool: string, ref: Ref): Promise<Holder | undefined> {
    const { holderOfTask } = await import('./peek.js')
    return await holderOfTask(spool, ref)
  },

  async freeSlots(spool: string, asked: readonly SlotWish[]): Promise<FreeSlots> {
    const { lookAtSlots } = await import('../spool/slot-files.js')
    return lookAtSlots(toByteString(spool), asked)
  },

  async sweep(spool: string, ages: SweepAges): Promise<Swept> {
    const { sweepSpool } = await import('../spool/admin/sweep.js')
    return await sweepSpool({ spool: toByteString(spool), ...ages })
  },

  async forget(spool: string, ageMs: number): Promise<number> {
    const { sweepRecords } = await import('../spool/admin/sweep.js')
    return await sweepRecords(toByteString(spool), Date.now() - ageMs)
  },

  async purge(spool: string, limits: PurgeLimits): Promise<Purged> {
    const { purge } = await import('../spool/admin/letters.js')
    return await purge(spool, limits)
  },
}

type AsideWork = typeof WORK
type AsideName = keyof AsideWork
type AsideArgs<Name extends AsideName> =
  Parameters<AsideWork[Name]> extends [string, ...infer Args] ? Args : never
export type AsideResult<Name extends AsideName> = ReturnType<AsideWork[Name]>

/** Does one piece of this work. @throws why it could not be done */
export type Aside = <Name extends AsideName>(
  name: Name,
  spool: string,
  ...args: AsideArgs<Name>
) => AsideResult<Name>

/** Does the work in this process. */
export const doHere: Aside = (name, spool, ...args) => {
  const act = WORK[name] as (spool: string, ...args: unknown[]) => AsideResult<typeof name>
  return act(spool, ...args)
}
