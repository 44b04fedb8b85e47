import { rateText } from './text.js'

interface Series {
  readonly name: string
  readonly values: readonly number[]
}

interface ChartProps {
  /** Unique in its page, so that a live refresh finds the chart again. */
  readonly id: string
  readonly title: string
  /** Epoch ms. */
  readonly times: readonly number[]
  readonly series: readonly Series[]
  readonly isRate?: boolean
}

const [WIDTH, HEIGHT] = [600, 140]

/** Lines over time, drawn as SVG for everybody. Where scripts run, uPlot draws them again, so that values can be read off. */
export function Chart({ id, title, times, series, isRate = false }: ChartProps) {
  const highest = Math.max(1, ...series.flatMap(({ values }) => values))
  const data = JSON.stringify({
    names: series.map(({ name }) => name),
    times: times.map(ms => Math.round(ms / 1000)),
    values: series.map(({ values }) => values.map(value => Math.round(value * 100) / 100)),
  })
  const lastOf = (values: readonly number[]) => {
    const value = values.at(-1) ?? 0
    return isRate ? rateText(value) : String(Math.round(value))
  }
  const now = series.map(({ name, values }) => `${name} ${lastOf(values)}`).join(', ')
  return (
    <figure class="chart" id={id} data-chart={data}>
      <figcaption>
        <strong>{title}</strong>{' '}
        <span class="quiet">{times.length === 0 ? 'no figures yet' : `now: ${now}`}</span>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title} over time: ${now}; at most ${Math.round(highest)}`}
      >
        {series.map(({ values }, i) => (
          <polyline class={`series-${i + 1}`} points={pointsOf(times, values, highest)} />
        ))}
      </svg>
      <div class="plot" id={`${id}-plot`} hx-morph-skip="" />
    </figure>
  )
}

function pointsOf(times: readonly number[], values: readonly number[], highest: number): string {
  const [first = 0] = times
  const span = Math.max(1, (times.at(-1) ?? 0) - first)
  return values
    .map((value, i) => {
      const x = (((times[i] ?? first) - first) / span) * WIDTH
      const y = HEIGHT - (value / highest) * (HEIGHT - 4) - 2
      return `${x.toFixed(1)},${y.toFixed(1)}`
    })
    .join(' ')
}
