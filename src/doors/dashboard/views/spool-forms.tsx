import type { Pause } from '../../../base/task/pause.js'
import { ActionForm, type Actor } from './actions.js'

interface SpoolFormProps {
  readonly actor: Actor
  /** The path of the spool. */
  readonly at: string
  readonly next: string
}

/** Starts no more tasks, or none of one kind; and ends that. */
export function PauseForms({ actor, at, next, pauses }: SpoolFormProps & { pauses: readonly Pause[] }) {
  return (
    <>
      {actor.may('pause') && (
        <details class="confirm">
          <summary class="button">Pause…</summary>
          <p>What runs goes on. Nothing else starts until the time is over, or until the spool is resumed.</p>
          <ActionForm name="pause" actor={actor} at={at} next={next}>
            {actor.mayReadPayload && (
              <Field name="key" label="Only tasks with this key and value" hint="kind=report" />
            )}
            <Field name="until" label="Until" hint="+1h, 2026-12-24 08:00" />
          </ActionForm>
        </details>
      )}
      {actor.may('resume') && pauses.length > 0 && (
        <ActionForm
          name="resume"
          actor={actor}
          at={at}
          next={next}
          label="Resume all"
          fields={{ all: 'on' }}
        />
      )}
    </>
  )
}

/** Stores a new task. */
export function EnqueueForm({ actor, at, next }: SpoolFormProps) {
  if (!actor.may('enqueue')) return null
  return (
    <details class="confirm">
      <summary class="button">Enqueue a task…</summary>
      <ActionForm name="enqueue" actor={actor} at={at} next={next}>
        <label class="wide">
          Keys and values, as JSON
          <textarea name="vars" rows={4} spellcheck={false} required placeholder='{"to": "joe"}' />
        </label>
        <label class="wide">
          Body
          <textarea name="body" rows={4} spellcheck={false} />
        </label>
        <Field name="at" label="Not before" hint="+1h, 2026-12-24 08:00" />
        <Field name="priority" label="Priority" hint="5" />
      </ActionForm>
    </details>
  )
}

interface ScaleProps extends SpoolFormProps {
  readonly isByHand: boolean
}

/** How many processes there should be. */
export function ScaleForms({ actor, at, next, isByHand }: ScaleProps) {
  if (!actor.may('scale')) return null
  const scale = (to: string, label: string) => (
    <ActionForm name="scale" actor={actor} at={at} next={next} label={label} fields={{ to }} />
  )
  return (
    <div class="actions with-fields">
      {scale('+1', 'One process more')}
      {scale('-1', 'One process less')}
      {isByHand && scale('auto', 'Leave it to the algorithm')}
      <ActionForm name="scale" actor={actor} at={at} next={next} label="Set the number">
        <Field name="to" label="Processes" hint="4" />
      </ActionForm>
    </div>
  )
}

function Field({ name, label, hint }: { name: string; label: string; hint: string }) {
  return (
    <label>
      {label}
      <br />
      <input name={name} placeholder={hint} autocomplete="off" />
    </label>
  )
}
