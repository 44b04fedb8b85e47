import { SpooldError } from '../../../base/errors.js'
import { wheelOf } from '../../../base/package-root.js'
import type { CommandContext } from '../context.js'
import { readVersion } from '../version.js'

/** The extras that the Python package declares (.rolldown.mjs). */
const EXTRAS = ['flask', 'django', 'sentry', 'datadog']

const NEXT = `This is Python's library for Python 3.7 and later; it needs no network and no build:
  pip install "$(spoold python-library)"
The module with the tasks, which the daemon imports (import = tasks in the ini), begins with
  from spoold import Tasks
and programs that schedule them are told where tasks go:
  export SPOOLD_ENQUEUE_TO=/var/spool/app
`

/** `spoold python-library`: prints the package that pip is to install, and on standard error what to do next. */
export function pythonLibrary(
  extras: readonly string[],
  _options: object,
  { output }: CommandContext,
): number {
  const unknown = extras.find(extra => !EXTRAS.includes(extra))
  if (unknown !== undefined)
    throw new SpooldError('USAGE', `expected ${EXTRAS.join(', ')}, got ${JSON.stringify(unknown)}`)
  output.line(`${wheelOf(readVersion())}${extras.length > 0 ? `[${extras.join(',')}]` : ''}`)
  output.pageAside(NEXT)
  return 0
}
