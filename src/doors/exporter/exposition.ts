import type { DaemonSnapshot, Distribution } from '../../runtime/stats/snapshot.js'

/** Prometheus' text format 0.0.4, or OpenMetrics 1.0. */
export type Dialect = 'prometheus' | 'openmetrics'

/** Labels by name, in the order in which they are written. */
type Labels = Readonly<Record<string, string>>

export interface Sample {
  readonly labels: Labels
  readonly value: number
}

interface DistributionSample {
  readonly labels: Labels
  readonly distribution: Distribution
}

interface Described {
  /** The name without the suffix that the type adds: `_total`, `_info`. */
  readonly name: string
  /** One line, without backslashes and quotes. */
  readonly help: string
  /** The names of the labels; a histogram also has `le`. */
  readonly labels: readonly string[]
}

/** A family of metrics, and how it is read from a snapshot. */
export type Metric = Described &
  (
    | {
        readonly type: 'gauge' | 'counter' | 'info'
        readonly samples: (snapshot: DaemonSnapshot) => readonly Sample[]
      }
    | {
        /** A histogram of durations. */
        readonly type: 'histogram'
        readonly samples: (snapshot: DaemonSnapshot) => readonly DistributionSample[]
      }
  )

/**
 * Upper bounds of buckets, in microseconds: powers of two from 0.26 ms to 36 min. They are bounds of the snapshot's own buckets,
 * so no count is a guess.
 */
const BOUNDS_MICROS = Array.from({ length: 24 }, (_, i) => 2 ** (i + 8))
const SUFFIXES = { gauge: '', counter: '_total', info: '_info', histogram: '' } as const
const UNITS = ['seconds', 'bytes']

/** Returns the name that is queried; for a histogram, that of its family. */
export function fullName({ name, type }: Pick<Metric, 'name' | 'type'>): string {
  return name + SUFFIXES[type]
}

export function exposition(metrics: readonly Metric[], snapshot: DaemonSnapshot, dialect: Dialect): string {
  const text = metrics.map(metric => family(metric, snapshot, dialect)).join('')
  return dialect === 'openmetrics' ? `${text}# EOF\n` : text
}

/** Returns a family's lines. A family without samples is left out, because it would be a name and nothing else. */
function family(metric: Metric, snapshot: DaemonSnapshot, dialect: Dialect): string {
  const lines = samplesOf(metric, snapshot)
  if (lines.length === 0) return ''
  const isOpen = dialect === 'openmetrics'
  const name = isOpen ? metric.name : fullName(metric)
  const type = metric.type === 'info' && !isOpen ? 'gauge' : metric.type
  const unit = UNITS.find(each => metric.name.endsWith(`_${each}`))
  const head = [
    `# HELP ${name} ${metric.help}`,
    `# TYPE ${name} ${type}`,
    ...(isOpen && unit !== undefined ? [`# UNIT ${name} ${unit}`] : []),
  ]
  return `${[...head, ...lines].join('\n')}\n`
}

function samplesOf(metric: Metric, snapshot: DaemonSnapshot): string[] {
  if (metric.type === 'histogram')
    return metric
      .samples(snapshot)
      .flatMap(({ labels, distribution }) => bucketsOf(metric.name, labels, distribution))
  const name = fullName(metric)
  return metric.samples(snapshot).map(({ labels, value }) => sample(name, labels, value))
}

/** Returns a histogram's lines. Buckets are cumulative, as in both formats. */
function bucketsOf(name: string, labels: Labels, { buckets, count, sumMicros }: Distribution): string[] {
  const notAbove = (bound: number) =>
    buckets.reduce((sum, [below, each]) => (below <= bound ? sum + each : sum), 0)
  return [
    ...BOUNDS_MICROS.map(bound =>
      sample(`${name}_bucket`, { ...labels, le: String(bound / 1e6) }, notAbove(bound)),
    ),
    sample(`${name}_bucket`, { ...labels, le: '+Inf' }, count),
    sample(`${name}_sum`, labels, sumMicros / 1e6),
    sample(`${name}_count`, labels, count),
  ]
}

function sample(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text)}"`)
  return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}`
}

function escaped(text: string): string {
  return text.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n')
}
