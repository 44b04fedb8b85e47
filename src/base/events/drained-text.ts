const UNFINISHED_TEXTS: Readonly<Record<string, string>> = {
  retry: 'to be retried',
  error: 'failed',
  crash: 'crashed',
  buried: 'buried',
  unsettled: 'ran, but could not be settled',
  ignore: 'ignored by all handlers',
  unreadable: 'could not be read',
  paused: 'paused',
  unknown: 'known to no handler',
}

/** How a `--drain` ended, for people. */
export function drainedText(done: number, unfinished: Readonly<Record<string, number>>): string {
  const others = Object.entries(UNFINISHED_TEXTS).flatMap(([kind, text]) => {
    const count = unfinished[kind] ?? 0
    return count === 0 ? [] : [`${count} ${text}`]
  })
  return `drained: ${[`${done} done`, ...others].join(', ')}`
}
