/**
 * Returns where a public function was called, as `file:line`, for messages about two places that disagree.
 *
 * @param called the public function; its frame and those it called are left out
 */
export function placeOfCallOf(called: (...args: never[]) => unknown): string {
  const holder: { stack?: string } = {}
  Error.captureStackTrace(holder, called)
  const [, frame = ''] = (holder.stack ?? '').split('\n')
  const [, place = 'an unknown place'] = /^\s*at (?:.*\()?(?:file:\/\/)?(.+?)(?::\d+)?\)?$/.exec(frame) ?? []
  return place
}
