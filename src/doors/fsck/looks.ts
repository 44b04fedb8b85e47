import { STATE_DIRECTORY } from '../../engines/spool/names.js'
import { listEntries } from '../../system/files/entries.js'
import { type ExaminedSpool, isOurDirectory, tasksIn } from './examined-spool.js'

/** How often the checks look at each file: for the rights, for its own check, and as litter. */
const LOOKS_PER_TASK = 2
const LOOKS_PER_FILE = { records: 3, dead: 3 } as const

/** About how often `passed` will be called: files come and go, and few of our own are in deeper directories. */
export async function countLooks(examined: ExaminedSpool): Promise<number> {
  let looks = 0
  for await (const _task of tasksIn({ ...examined, passed() {} })) looks += LOOKS_PER_TASK
  for (const [room, each] of Object.entries(LOOKS_PER_FILE))
    if (isOurDirectory(examined, room))
      for await (const _entry of listEntries(`${examined.spool}/${STATE_DIRECTORY}/${room}`)) looks += each
  return looks
}
