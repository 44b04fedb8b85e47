import { type ActionName, findAction } from '../../operate/actions.js'
import type { PageContext } from '../context.js'
import { filterIn } from '../filter.js'
import { PageError } from '../page-error.js'
import { Layout } from './layout.js'

/** How many tasks an action would be done to, and the form that does it. */
export async function bulkPage(
  { spools, viewer, query }: PageContext,
  { spool: id = '', action: name = '' }: Readonly<Record<string, string>>,
) {
  const action = findAction(name)
  if (action?.on !== 'task' || !action.inBulk) throw new PageError(404, 'there is no such action')
  if (!viewer.may(name as ActionName)) throw new PageError(403, `${name} is not for you`)
  const spool = spools.get(id)
  const given = Object.fromEntries(query)
  const { count, isWhole } = await spool.count(action, filterIn(given))
  if (!isWhole)
    return (
      <Layout title={`${name}: too many tasks`}>
        <p>
          More than {count} tasks would be looked at or changed. Narrow the filter, or use the command line.
        </p>
      </Layout>
    )
  return (
    <Layout title={`${name} ${count} tasks`}>
      <form method="post" action={`/spools/${spool.id}/bulk/${name}`}>
        <input type="hidden" name="csrf" value={viewer.csrf} />
        <input type="hidden" name="count" value={String(count)} />
        {Object.entries(filterIn(given)).map(([key, value]) => (
          <input type="hidden" name={key} value={String(value)} />
        ))}
        {action.isFinal ? (
          <label>
            This cannot be undone. Type {count}:{' '}
            <input name="typed" inputmode="numeric" autocomplete="off" required />
          </label>
        ) : null}
        <button type="submit">
          {name} {count} tasks
        </button>
      </form>
    </Layout>
  )
}
