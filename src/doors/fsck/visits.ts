import { counted } from '../../base/counted.js'
import { shellWord } from '../../base/printable.js'
import { toFsPath } from '../../base/task/ref.js'
import { isPriorityDirectory, isTaskName, isUwsgiName, STATE_DIRECTORY } from '../../engines/spool/names.js'
import { listEntries } from '../../system/files/entries.js'
import { type ExaminedSpool, entriesIn } from './examined-spool.js'
import type { Finding } from './finding.js'

/** Tasks in directories that are not scanned. Without a configuration, this is known only for some of them. */
export async function* checkVisits(examined: ExaminedSpool): AsyncGenerator<Finding> {
  const isOrdered = examined.rules?.ordered
  for await (const entry of listEntries(examined.spool)) {
    if (!entry.isDirectory() || entry.name === STATE_DIRECTORY) continue
    const isPriority = isPriorityDirectory(entry.name)
    if (isPriority && isOrdered === true) continue
    const tasks = await countTasks(examined, entry.name, isPriority)
    if (tasks === 0) continue
    yield {
      kind: 'unvisited',
      path: entry.name,
      meaning: `${counted(tasks, 'task')} in a directory that ${isPriority ? 'is only scanned with spooler-ordered' : 'is never scanned: its name is not a number'}`,
      fix: isPriority ? 'set spooler-ordered = true' : moveUp(examined, entry.name),
      ...(isPriority && isOrdered === undefined ? { isNote: true } : {}),
    }
  }
}

/** In a directory of any name, only files that uWSGI would have put there. */
async function countTasks(examined: ExaminedSpool, directory: string, isPriority: boolean): Promise<number> {
  const rules = { ordered: true, strictNames: false }
  let tasks = 0
  for await (const { name } of entriesIn(examined, directory))
    if (isPriority ? isTaskName(name, rules) : isUwsgiName(name, { ...rules, ordered: false })) tasks++
  return tasks
}

function moveUp({ spool }: ExaminedSpool, directory: string): string {
  const from = shellWord(toFsPath(`${spool}/${directory}`))
  return `mv -n ${from}/uwsgi_spoolfile_on_* ${shellWord(toFsPath(spool))}/`
}
