import type { DaemonSnapshot, Distribution, SpoolSnapshot } from '../../runtime/stats/snapshot.js'
import type { Metric, Sample } from './exposition.js'

/** A value of a metric. Null: unknown, so there is no sample. */
type Value = number | null
/** Values by the value of a label. */
type Values = Readonly<Record<string, Value>>

export function ofDaemon(
  type: 'gauge' | 'counter',
  name: string,
  help: string,
  value: (snapshot: DaemonSnapshot) => number,
): Metric {
  return { name, type, help, labels: [], samples: snapshot => [{ labels: {}, value: value(snapshot) }] }
}

export function perSpool(
  type: 'gauge' | 'counter',
  name: string,
  help: string,
  read: (spool: SpoolSnapshot, atMs: number) => Value,
): Metric {
  return {
    name,
    type,
    help,
    labels: ['spool'],
    samples: ({ spools, atMs }) =>
      spools.flatMap(spool => sampleOf({ spool: spool.directory }, read(spool, atMs))),
  }
}

/** Returns a counter for each entry. Key: the metric's name; value: the total that it counts, and its help. */
export function totals(
  metrics: Readonly<Record<string, readonly [total: keyof SpoolSnapshot['totals'], help: string]>>,
): Metric[] {
  return Object.entries(metrics).map(([name, [total, help]]) =>
    perSpool('counter', name, help, spool => spool.totals[total]),
  )
}

export function perSpoolBy(
  type: 'gauge' | 'counter',
  name: string,
  help: string,
  { label, values }: { readonly label: string; readonly values: (spool: SpoolSnapshot) => Values },
): Metric {
  return {
    name,
    type,
    help,
    labels: ['spool', label],
    samples: ({ spools }) =>
      spools.flatMap(spool =>
        Object.entries(values(spool)).flatMap(([each, value]) =>
          sampleOf({ spool: spool.directory, [label]: each }, value),
        ),
      ),
  }
}

export function histogram(
  name: string,
  help: string,
  distribution: (spool: SpoolSnapshot) => Distribution,
): Metric {
  return {
    name,
    type: 'histogram',
    help,
    labels: ['spool'],
    samples: ({ spools }) =>
      spools.map(spool => ({ labels: { spool: spool.directory }, distribution: distribution(spool) })),
  }
}

/** Returns 1 for the value that `is`, 0 for the others. */
export function oneOf<T extends string>(all: readonly T[], is: T): Record<string, number> {
  return Object.fromEntries(all.map(each => [each, Number(each === is)]))
}

export function seconds(ms: number): number {
  return ms / 1000
}

function sampleOf(labels: Sample['labels'], value: Value): Sample[] {
  return value === null ? [] : [{ labels, value }]
}
