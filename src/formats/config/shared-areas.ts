import { describe } from '../../base/errors.js'
import type { Problems, Where } from '../ini/setting.js'

const PAGE_BYTES = 4096
const UNITS: Readonly<Record<string, number>> = { '': 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 }
/** More than a small machine has; a larger value is most likely a mistake. */
const MAX_BYTES = 4 * 1024 ** 3

/**
 * Returns sizes in bytes. `2`, `pages=2` and `size=8k` mean the same as in uWSGI (core/sharedarea.c), which rounds up to pages.
 */
export function sharedAreaBytes(values: readonly string[]): number[] {
  return values.map(text => bytesOf(text) ?? PAGE_BYTES)
}

export function checkSharedAreas(
  values: readonly string[],
  where: (name: string, i: number) => Where,
  problems: Problems,
): void {
  for (const [i, text] of values.entries())
    if (bytesOf(text) === undefined)
      problems.error(
        where('sharedarea', i),
        `sharedarea: expected a number of pages, pages=N or size=BYTES (with k, m or g), got ${describe(text)}`,
      )
}

function bytesOf(text: string): number | undefined {
  const [, pages] = /^(?:pages=)?([0-9]{1,7})$/.exec(text) ?? []
  const [, size, unit = ''] = /^size=([0-9]{1,12})([kmg]?)$/i.exec(text) ?? []
  const bytes =
    pages === undefined ? Number(size) * (UNITS[unit.toLowerCase()] ?? 1) : Number(pages) * PAGE_BYTES
  return bytes > 0 && bytes <= MAX_BYTES ? Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES : undefined
}
