import { isUtf8 } from 'node:buffer'
import type { TaskView } from '../../../engines/spool/admin/task-view.js'
import { HIDDEN } from '../../../formats/protocol/hide.js'
import { toPairs } from '../../../formats/protocol/vars.js'
import { ActionForm, type Actor } from './actions.js'

interface EditProps {
  readonly actor: Actor
  readonly at: string
  readonly next: string
  readonly task: TaskView
}

/** The keys of a task, to be changed: it is stored again, and this one removed. The body stays. */
export function EditForm({ actor, at, next, task }: EditProps) {
  const pairs = task.file.vars === undefined ? [] : toPairs(task.file.vars)
  const isText = pairs.every(pair => pair.every(part => isUtf8(part)))
  const isHidden = pairs.some(([, value]) => value.includes(HIDDEN))
  if (!isText || isHidden) return null // what is no text, or hidden, would come back changed
  const texts = pairs.map(([key, value]) => [key.toString(), value.toString()] as const)
  const keys = new Set(texts.map(([key]) => key))
  const vars = JSON.stringify(keys.size === texts.length ? Object.fromEntries(texts) : texts, null, 2)
  return (
    <section class="card" aria-labelledby="edit">
      <h2 id="edit">Edit and try again</h2>
      <p class="quiet">
        The changed task is stored as a new one, which runs at once, and this one is removed. Its body stays.
      </p>
      <ActionForm name="edit" actor={actor} at={at} next={next} label="Store the changed task">
        <label for="vars">Keys and values, as JSON</label>
        <textarea id="vars" name="vars" rows={10} spellcheck={false} required>
          {vars}
        </textarea>
      </ActionForm>
    </section>
  )
}
