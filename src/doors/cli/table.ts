import { styleText } from 'node:util'
import type { Screen } from './screen.js'
import { cellText, fit, pad, widthOf } from './text-width.js'

type Style = Parameters<typeof styleText>[0]

/** A column of a table for people. */
export interface Column<Row> {
  readonly title: string
  cell(row: Row): string
  readonly isRight?: true
  /**
   * What happens in a terminal that is too narrow. `whole`: never cut, but moved to a line of its own, beneath the others.
   * `shared`: cut, to an equal share of what is left. `rest`: cut to what is left in the end; the last column only.
   */
  readonly fit?: 'whole' | 'shared' | 'rest'
  /** True if a terminal does not show the column while it is empty. */
  readonly isOptional?: true
  style?(row: Row): Style | undefined
}

/** The number of rows that are laid out together. */
const ROWS_PER_BLOCK = 1000
const GAP = '  '
/** The maximum width of a cell where there is no terminal, so that one long value does not pad a thousand rows. */
const MAX_CELL_COLUMNS = 200
/** The least width of a column whose texts are cut: narrower ones are of no use. */
const MIN_SHARED_COLUMNS = 8
const MIN_REST_COLUMNS = 20

/**
 * Prints a table for people. Titles and cells are escaped here, before they are measured and painted. Each column is as wide as
 * its widest cell so far. Rows are buffered a thousand at a time, so a long table is never in memory as a whole.
 */
export class Table<Row> {
  readonly #columns: ReadonlyArray<Column<Row>>
  readonly #screen: Screen
  readonly #print: (line: string) => void
  readonly #widths: number[]
  #rows: Row[] = []
  /** The titles that were printed last. */
  #titles = ''

  constructor(columns: ReadonlyArray<Column<Row>>, screen: Screen, print: (line: string) => void) {
    this.#columns = columns.map(column => ({ ...column, title: cellText(column.title) }))
    this.#screen = screen
    this.#print = print
    this.#widths = this.#columns.map(({ title }) => widthOf(title))
  }

  add(row: Row): void {
    this.#rows.push(row)
    if (this.#rows.length === ROWS_PER_BLOCK) this.#printBlock()
  }

  /** Prints the buffered rows; an empty table still has its header. */
  end(): void {
    if (this.#rows.length > 0 || this.#titles === '') this.#printBlock()
  }

  #printBlock(): void {
    const rows = this.#rows
    this.#rows = []
    const { columns: width } = this.#screen
    const cells = rows.map(row =>
      this.#columns.map(column => fit(cellText(column.cell(row)), MAX_CELL_COLUMNS)),
    )
    for (const [i] of this.#columns.entries())
      this.#widths[i] = Math.max(this.#widths[i] ?? 0, ...cells.map(row => widthOf(row[i] ?? '')))
    const isShown = this.#columns.map(
      ({ isOptional }, i) => width === undefined || !isOptional || cells.some(row => row[i] !== ''),
    )
    const { widths, isBeneath } = this.#layOut(isShown)
    const lines = (row: readonly string[], style: (i: number) => Style | undefined) => {
      const paint = (text: string, i: number) => {
        const look = this.#screen.hasColor && text !== '' ? style(i) : undefined
        return look === undefined ? text : styleText(look, text, { validateStream: false })
      }
      const shown = [...this.#columns.entries()].filter(([i]) => isShown[i])
      const beside = shown.filter(([, { fit: kind }]) => !(isBeneath && kind === 'whole'))
      const last = beside.findLast(([i, { isRight }]) => isRight || row[i] !== '')?.[0] ?? 0
      const texts = beside
        .filter(([i]) => i <= last)
        .map(([i, { isRight }]) => {
          const text = fit(row[i] ?? '', widths[i] ?? 0)
          const blanks = pad('', (i === last && !isRight ? 0 : (widths[i] ?? 0)) - widthOf(text))
          return isRight ? blanks + paint(text, i) : paint(text, i) + blanks
        })
      this.#print(texts.join(GAP).trimEnd())
      if (!isBeneath) return
      for (const [i, { fit: kind }] of shown)
        if (kind === 'whole' && row[i] !== '') this.#print(GAP + paint(row[i] ?? '', i))
    }
    const titles = this.#columns.map(({ title }) => title)
    const shownTitles = titles.filter((_, i) => isShown[i]).join()
    if (this.#titles !== shownTitles) lines(titles, () => 'bold')
    this.#titles = shownTitles
    for (const [n, row] of rows.entries()) lines(cells[n] ?? [], i => this.#columns[i]?.style?.(row))
  }

  /** Returns the widths of the columns in this terminal, and whether the columns that are never cut have lines of their own. */
  #layOut(isShown: readonly boolean[]): { widths: readonly number[]; isBeneath: boolean } {
    const { columns: width } = this.#screen
    if (width === undefined) return { widths: this.#widths, isBeneath: false }
    const taken = (kinds: ReadonlyArray<Column<Row>['fit']>, widths: readonly number[]) =>
      this.#columns
        .map(({ fit: kind }, i) => (isShown[i] && kinds.includes(kind) ? (widths[i] ?? 0) + GAP.length : 0))
        .reduce((sum, each) => sum + each, 0)
    const least = this.#widths.map((own, i) => {
      const kind = this.#columns[i]?.fit
      if (kind === 'rest') return Math.min(own, MIN_REST_COLUMNS)
      return kind === 'shared' ? Math.min(own, MIN_SHARED_COLUMNS) : own
    })
    const isBeneath = taken([undefined, 'whole', 'shared', 'rest'], least) - GAP.length > width
    const fixed: Array<Column<Row>['fit']> = isBeneath ? [undefined] : [undefined, 'whole']
    const shared = this.#columns.filter(({ fit: kind }, i) => kind === 'shared' && isShown[i]).length
    const left = width - taken([...fixed, 'rest'], least)
    const share = Math.max(
      MIN_SHARED_COLUMNS,
      Math.floor((left + GAP.length) / Math.max(1, shared)) - GAP.length,
    )
    const widths = this.#widths.map((own, i) =>
      this.#columns[i]?.fit === 'shared' ? Math.min(own, share) : own,
    )
    const rest = Math.max(MIN_SHARED_COLUMNS, width - taken([...fixed, 'shared'], widths))
    return {
      widths: widths.map((own, i) => (this.#columns[i]?.fit === 'rest' ? Math.min(own, rest) : own)),
      isBeneath,
    }
  }
}
