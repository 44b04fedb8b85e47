import { styleText } from 'node:util'
import { counted } from '../../../base/counted.js'
import { bars, countText, shortDuration } from '../render.js'
import { screenOf, summaryOf } from '../status/screen.js'
import type { SpoolStatus } from '../status/spool-status.js'
import { Table } from '../table.js'
import { cellText, fit, pad, widthOf } from '../text-width.js'
import { columnsOf } from './columns.js'
import type { Sample, TopState } from './state.js'
import { TABS } from './tabs.js'

/** How much the terminal shows. */
export interface Size {
  readonly columns: number
  readonly rows: number
}

/** Title, summary, tabs, the heads of columns; message, keys. */
const HEAD_LINES = 4
const FOOT_LINES = 2
const MIN_PATH_COLUMNS = 12

/** How many rows of a table or lines of a text fit. */
export function pageOf({ rows }: Size): number {
  return Math.max(1, rows - HEAD_LINES - FOOT_LINES)
}

/** The whole screen: one line for each row, none wider than the screen. Styles are the only thing in it that a terminal obeys. */
export function draw(state: TopState, size: Size, hasColor: boolean): string[] {
  const { columns, rows } = size
  const painter = new Painter(columns, hasColor)
  const lines = [
    painter.line(titleOf(state, columns), 'bold'),
    painter.line(summary(state)),
    painter.tabs(state),
    ...body(state, size, painter),
  ]
  const room = Math.max(0, rows - FOOT_LINES)
  const shown = [...lines, ...new Array<string>(Math.max(0, room - lines.length)).fill('')].slice(0, room)
  return [...shown, painter.line(messageOf(state)), painter.line(keysOf(state), 'dim')].slice(-rows)
}

/** The title. Of a path that is too long only the end is shown, because what the daemon does matters more. */
function titleOf({ spool, spools, look }: TopState, columns: number): string {
  const which = spools.length > 1 ? ` (${spools.indexOf(spool) + 1} of ${spools.length})` : ''
  const [first, ...others] = look?.statuses ?? []
  const rest = `${which}: ${first === undefined ? 'looking …' : sourceOf(first, others.length)}`
  const path = [...cellText(spool)]
  const room = Math.max(MIN_PATH_COLUMNS, columns - widthOf(rest))
  if (widthOf(path.join('')) <= room) return path.join('') + rest
  while (widthOf(path.join('')) > room - 1) path.shift()
  return `…${path.join('')}${rest}`
}

function sourceOf(status: SpoolStatus, others: number): string {
  switch (status.source) {
    case 'none':
      return status.because
    case 'directory':
    case 'redis': {
      const itself = status.source === 'redis' ? 'what Redis knows' : 'the directory itself'
      return status.because === null
        ? `no daemon answers; this is ${itself}`
        : `its daemon cannot be asked (${status.because}); this is ${itself}`
    }
    case 'daemon': {
      const { pid, host, state, startedAtMs, isQuiet } = status.daemon
      const more = others > 0 ? ` and ${counted(others, 'more daemon')}` : ''
      const since = shortDuration(status.atMs - startedAtMs)
      return `pid ${pid} on ${host}${more}, ${state} for ${since}${isQuiet ? ', quiet' : ''}`
    }
  }
}

function summary({ look }: TopState): string {
  const [first, ...others] = (look?.statuses ?? []).filter(status => status.source !== 'none')
  if (first === undefined) return ''
  const rate = first.source === 'daemon' ? `, ${first.rates.done.m1.toFixed(1)} tasks/s` : ''
  return `${summaryOf([first, ...others])}${rate}`
}

function body(state: TopState, size: Size, painter: Painter): string[] {
  const page = pageOf(size)
  const { mode, look, tab } = state
  if (mode.kind === 'text')
    return ['', ...mode.lines.slice(mode.first, mode.first + page).map(line => painter.line(line))]
  if (look === undefined) return []
  if (tab === 'overview') {
    const lines = [
      ...rateLine(state.history, size.columns),
      ...look.statuses.flatMap(status => [...screenOf(status)]),
    ]
    return lines.slice(0, page + 1).map(line => painter.line(line))
  }
  return table(state, page, painter)
}

/** The page that has the cursor. */
function table(state: TopState, page: number, painter: Painter): string[] {
  const { tab, look, cursor, selected } = state
  if (look === undefined || tab === 'overview') return []
  if (look.rows.length === 0) return ['', painter.line(state.filter === '' ? 'none' : 'none with this text')]
  const first = Math.floor(cursor / page) * page
  const rows = look.rows.slice(first, first + page)
  const lines: string[] = []
  const printed = new Table(columnsOf(tab), painter.inner, line => lines.push(line))
  for (const row of rows) printed.add(row)
  printed.end()
  const [head = '', ...texts] = lines
  return [
    painter.line(` ${head}`),
    ...texts.map((text, i) => {
      const isSelected = selected.has(rows[i]?.id ?? '')
      return painter.row(`${isSelected ? '*' : ' '}${text}`, first + i === cursor, isSelected)
    }),
  ]
}

function messageOf(state: TopState): string {
  const { mode, message, look, selected, filter, cursor, tab } = state
  if (mode.kind === 'prompt') return `${mode.of === 'filter' ? '/' : 'processes: '}${mode.text}▏`
  if (mode.kind === 'confirm') return `${mode.intent.text}? y/N`
  if (message !== '') return message
  if (look === undefined || tab === 'overview' || mode.kind === 'text') return ''
  const count = look.rows.length
  const parts = [
    ...(filter === '' ? [] : [`/${filter}`]),
    ...(count === 0 ? [] : [`${cursor + 1} of ${countText(count)}`]),
    ...(selected.size === 0 ? [] : [`${countText(selected.size)} selected`]),
    look.scope,
  ]
  return parts.filter(part => part !== '').join('; ')
}

const ACTIONS_OF: Readonly<Record<(typeof TABS)[number]['name'], string>> = {
  overview: 'P pause  U resume  S scale',
  running: 'C cancel',
  waiting: 'K kick  H hold  B bury  D remove',
  retrying: 'K kick  H hold  B bury  D remove',
  dead: 'R requeue  D remove',
  held: 'L release  K kick  B bury  D remove',
  workers: 'S scale  P pause  U resume',
  names: 'P pause  U resume',
  schedules: '',
}

function keysOf({ mode, tab }: TopState): string {
  switch (mode.kind) {
    case 'prompt':
      return 'Enter takes it  Esc leaves it'
    case 'confirm':
      return 'y does it  any other key does not'
    case 'text':
      return `${mode.title}: j k PgDn PgUp move  any other key goes back`
    case 'list': {
      const task = ['running', 'waiting', 'retrying', 'dead', 'held'].includes(tab)
      const look = task ? 'Enter show  space select  * all  / filter' : tab === 'overview' ? '' : '/ filter'
      return ['? help  q quit', look, ACTIONS_OF[tab]].filter(part => part !== '').join('  ')
    }
  }
}

/** Escapes lines, cuts them to the width of the screen, and styles them; the rows of a table are escaped. */
class Painter {
  readonly #columns: number
  readonly #hasColor: boolean

  constructor(columns: number, hasColor: boolean) {
    this.#columns = columns
    this.#hasColor = hasColor
  }

  /** The width of a table beside the column of marks. */
  get inner() {
    return { columns: Math.max(1, this.#columns - 1), hasColor: false }
  }

  line(text: string, style?: 'bold' | 'dim'): string {
    const cut = fit(cellText(text), this.#columns)
    return style === undefined ? cut : this.#styled(style, cut)
  }

  /** Inverts the line of the cursor, also without colors, because the cursor would be invisible otherwise. */
  row(text: string, isCursor: boolean, isSelected: boolean): string {
    const cut = pad(fit(text, this.#columns), this.#columns)
    if (isCursor) return styleText('inverse', cut, { validateStream: false })
    return isSelected ? this.#styled('yellow', cut) : cut
  }

  /** The tabs: in full if there is room, else with short names. The open one is in brackets. */
  tabs({ tab }: TopState): string {
    const text = (key: 'title' | 'short') =>
      TABS.map((each, i) => {
        const label = `${i + 1} ${each[key]}`
        return each.name === tab ? `[${label}]` : ` ${label} `
      })
        .join('')
        .replaceAll('  ', ' ')
        .replaceAll('] ', ']')
        .replaceAll(' [', '[')
    const full = text('title')
    return this.line(widthOf(full) <= this.#columns ? full : text('short'))
  }

  #styled(style: 'bold' | 'dim' | 'yellow', text: string): string {
    return this.#hasColor && text !== '' ? styleText(style, text, { validateStream: false }) : text
  }
}

const LABEL = '  done/s      '
/** The scale, at the end of the line. */
const SCALE_COLUMNS = 24

/** One line that shows how many tasks per second were done between looks, the last on the right; nothing before the second look. */
export function rateLine(history: readonly Sample[], columns: number): string[] {
  const rates = history.slice(1).map((sample, i) => rateOf(history[i], sample))
  const shown = rates.slice(-Math.max(1, columns - LABEL.length - SCALE_COLUMNS))
  if (shown.length === 0) return []
  const most = shown.reduce((highest, rate) => Math.max(highest, rate), 0)
  return [
    `${LABEL}${bars(shown, most, '▁▂▃▄▅▆▇█')} at most ${most < 10 ? most.toFixed(1) : countText(Math.round(most))}`,
  ]
}

/** The increase; 0 if a daemon has started anew in between. */
function rateOf(before: Sample | undefined, { atMs, daemon, done }: Sample): number {
  if (before === undefined || before.daemon !== daemon || atMs <= before.atMs) return 0
  return Math.max(0, ((done - before.done) * 1000) / (atMs - before.atMs))
}
