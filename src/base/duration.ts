const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
}

/**
 * Parses `90` (seconds), `5m`, `1h30m`, `500ms`, `2d` or `1w`.
 *
 * @returns milliseconds; undefined for anything else
 */
export function parseDuration(text: string): number | undefined {
  if (isPlainNumber(text)) return Number(text) * 1000
  if (!/^(?:[0-9]+(?:\.[0-9]+)?(?:ms|[smhdw]))+$/.test(text)) return undefined
  let sum = 0
  for (const [, amount, unit = ''] of text.matchAll(/([0-9.]+)(ms|[smhdw])/g))
    sum += Number(amount) * (UNIT_MS[unit] ?? 0)
  return sum
}

/** `12 ms`, `1.2 s`, `60 s`: rounded for people. */
export function durationText(ms: number): string {
  if (ms < 950) return `${Math.max(0, Math.round(ms))} ms`
  return `${ms < 10_000 ? Math.round(ms / 100) / 10 : Math.round(ms / 1000)} s`
}

const PLAIN_NUMBER = /^[0-9]+(?:\.[0-9]*)?$/

/** A number without sign, unit or exponent; where a duration is expected, it means seconds. */
export function isPlainNumber(text: string): boolean {
  return PLAIN_NUMBER.test(text)
}
