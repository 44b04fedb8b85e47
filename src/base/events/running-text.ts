import { printable } from '../printable.js'
import { displayName, type TaskName } from '../task/ref.js'

export function itHad(running: readonly TaskName[]): string {
  return running.length === 0 ? '' : `; it had ${named(running)}`
}

export function stillRun(running: readonly TaskName[]): string {
  return running.length === 1
    ? `1 task still runs (${named(running)}), it has`
    : `${running.length} tasks still run (${named(running)}), they have`
}

export function named(tasks: readonly TaskName[]): string {
  const names = tasks.slice(0, 3).map(name => printable(displayName(name)))
  return `${names.join(', ')}${tasks.length > 3 ? ', …' : ''}`
}
