import { ACTION_KEYS, intentOf } from './intents.js'
import { HELP } from './keys.js'
import { clamp, type Mode, type Step, type TopState, turnedTo } from './state.js'
import { TABS, tabAt } from './tabs.js'

const LONGEST_PROMPT = 200

/** Returns what a key does. @param page how many rows the screen shows */
export function press(state: TopState, key: string, page: number): Step {
  if (key === 'ctrl-c') return { state, effect: { kind: 'quit' } }
  if (key === 'ctrl-z') return { state, effect: { kind: 'suspend' } }
  if (key === 'ctrl-l') return { state, effect: { kind: 'redraw' } }
  switch (state.mode.kind) {
    case 'prompt':
      return inPrompt(state, state.mode, key)
    case 'confirm':
      return inConfirmation(state, state.mode, key)
    case 'text':
      return inText(state, state.mode, key, page)
    case 'list':
      return inList(state, key, page)
  }
}

const list = (state: TopState, message = ''): Step => ({
  state: { ...state, mode: { kind: 'list' }, message },
})

function inList(state: TopState, key: string, page: number): Step {
  if (Object.hasOwn(ACTION_KEYS, key)) return actedOn(state, key)
  const rows = state.look?.rows ?? []
  const row = rows[state.cursor]
  const by = stepOf(key, page)
  if (by !== undefined)
    return { state: { ...state, cursor: clamp(state.cursor + by, rows.length), message: '' } }
  switch (key) {
    case 'q':
      return { state, effect: { kind: 'quit' } }
    case '?':
      return { state: { ...state, mode: { kind: 'text', title: 'keys', lines: HELP, first: 0 } } }
    case 'right':
    case 'tab':
      return turnedTo(state, { tab: tabAt(state.tab, 1), filter: '' })
    case 'left':
    case 'shift-tab':
      return turnedTo(state, { tab: tabAt(state.tab, -1), filter: '' })
    case ']':
      return toSpool(state, 1)
    case '[':
      return toSpool(state, -1)
    case '/':
      return { state: { ...state, mode: { kind: 'prompt', of: 'filter', text: state.filter }, message: '' } }
    case 'escape':
      return state.filter === ''
        ? { state: { ...state, selected: new Set(), message: '' } }
        : turnedTo(state, { filter: '' })
    case 'r':
      return { state: { ...state, message: '' }, effect: { kind: 'look' } }
    case 'space':
    case 'x':
      return toggled(state)
    case '*':
      return allToggled(state)
    case 'enter':
      return row?.task === undefined ? { state } : { state, effect: { kind: 'show', row } }
    default:
      return byNumber(state, key)
  }
}

function byNumber(state: TopState, key: string): Step {
  const tab = /^[1-9]$/.test(key) ? TABS[Number(key) - 1] : undefined
  if (tab?.name === state.tab && state.filter === '') return { state, effect: { kind: 'look' } }
  if (tab !== undefined) return turnedTo(state, { tab: tab.name, filter: '' })
  return { state: { ...state, message: `${key} does nothing here; ? lists the keys` } }
}

function toSpool(state: TopState, by: number): Step {
  const { spools, spool } = state
  if (spools.length === 1) return { state: { ...state, message: 'there is one spool' } }
  const at = (spools.indexOf(spool) + by + spools.length) % spools.length
  return turnedTo(state, { spool: spools[at] ?? spool, filter: '' })
}

/** Selects the row under the cursor, or ends its selection, and goes on to the next row. */
function toggled(state: TopState): Step {
  const row = state.look?.rows[state.cursor]
  if (row?.task === undefined) return { state }
  const selected = new Set(state.selected)
  if (!selected.delete(row.id)) selected.add(row.id)
  const cursor = clamp(state.cursor + 1, state.look?.rows.length ?? 0)
  return { state: { ...state, selected, cursor, message: '' } }
}

function allToggled(state: TopState): Step {
  const tasks = (state.look?.rows ?? []).filter(({ task }) => task !== undefined)
  const areAll = tasks.length > 0 && tasks.every(({ id }) => state.selected.has(id))
  return { state: { ...state, selected: new Set(areAll ? [] : tasks.map(({ id }) => id)), message: '' } }
}

/** Asks before an action. */
function actedOn(state: TopState, key: string): Step {
  const action = ACTION_KEYS[key]
  if (action === undefined) return { state }
  if (action === 'scale')
    return { state: { ...state, mode: { kind: 'prompt', of: 'scale', text: '' }, message: '' } }
  const intent = intentOf(state, action)
  if (typeof intent === 'string') return list(state, intent)
  return { state: { ...state, mode: { kind: 'confirm', intent }, message: '' } }
}

function inConfirmation(state: TopState, { intent }: Extract<Mode, { kind: 'confirm' }>, key: string): Step {
  if (key !== 'y') return list(state, 'nothing was done')
  return { ...list({ ...state, selected: new Set() }, `${intent.text} …`), effect: { kind: 'act', intent } }
}

function inPrompt(state: TopState, mode: Extract<Mode, { kind: 'prompt' }>, key: string): Step {
  const { of, text } = mode
  const typed = (next: string): Step => ({ state: { ...state, mode: { ...mode, text: next } } })
  switch (key) {
    case 'escape':
      return list(state)
    case 'enter':
      return of === 'filter' ? turnedTo(state, { filter: text }) : scaled(state, text)
    case 'backspace':
      return typed([...text].slice(0, -1).join(''))
    case 'ctrl-u':
      return typed('')
    case 'space':
      return typed(`${text} `)
    default:
      return [...key].length === 1 && text.length < LONGEST_PROMPT ? typed(text + key) : { state }
  }
}

function scaled(state: TopState, to: string): Step {
  const intent = intentOf(state, 'scale', to)
  if (typeof intent === 'string') return list(state, intent)
  return { ...list(state, `${intent.text} …`), effect: { kind: 'act', intent } }
}

function inText(state: TopState, mode: Extract<Mode, { kind: 'text' }>, key: string, page: number): Step {
  const by = key === 'space' ? page : stepOf(key, page)
  if (by === undefined) return list(state)
  const last = Math.max(0, mode.lines.length - page)
  const first = Math.max(0, Math.min(mode.first + by, last))
  return { state: { ...state, mode: { ...mode, first } } }
}

/** How far a key moves in a list or a text; undefined if the key does something else. */
function stepOf(key: string, page: number): number | undefined {
  const [start, end] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]
  const steps: Readonly<Record<string, number>> = {
    ...{ j: 1, down: 1, k: -1, up: -1 },
    ...{ pagedown: page, pageup: -page, home: start, end },
  }
  return steps[key]
}
