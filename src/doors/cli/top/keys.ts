/** The keys and what they do, in words for people. */
export const HELP: readonly string[] = [
  'tabs      1 to 9, ← →, tab            spools   [ ]',
  'move      j k ↓ ↑, PgDn PgUp, Home End',
  'filter    / text in a name, a value or an error; Esc ends it',
  'select    space or x; * all that are listed; Esc none',
  'look      Enter shows a task; r looks again now',
  'leave     q, Ctrl-C; Ctrl-Z suspends; Ctrl-L draws again',
  '',
  'Capitals act on what is selected or, if nothing is, on the line of the',
  'cursor. Each says first what it will do, and to how many; y does it.',
  '',
  '  R  requeue   put dead letters back, due at once',
  '  K  kick      run now, whatever it waits for',
  '  H  hold      keep from running',
  '  L  release   end a hold',
  '  B  bury      make it a dead letter, without a run',
  '  C  cancel    end a run, and bury the task',
  '  D  remove    for good',
  '  P  pause     start no more tasks of the spool; on tab 8, of a name',
  '  U  resume    end the pauses; on tab 8, that of a name',
  '  S  scale     set the number of processes: N, +N, -N or auto',
  '',
  'On tab 9, K runs a schedule now, P and U pause and resume it, and D',
  'removes it, if running code has added it.',
]

/** Node's name of a key. */
interface Pressed {
  readonly name?: string | undefined
  readonly sequence?: string | undefined
  readonly ctrl?: boolean | undefined
  readonly meta?: boolean | undefined
  readonly shift?: boolean | undefined
}

const NAMED = [
  'up',
  'down',
  'left',
  'right',
  'home',
  'end',
  'pageup',
  'pagedown',
  'backspace',
  'escape',
  'space',
]

/**
 * Returns one word for a key: what it types, or its name.
 *
 * @param text the text of Node's keypress event
 * @returns undefined for other escape sequences and for keys with Alt
 */
export function keyOf(
  text: string | undefined,
  { name = '', ctrl, meta, shift }: Pressed,
): string | undefined {
  if (name === 'escape') return 'escape'
  if (meta === true) return undefined
  if (ctrl === true) return name.length === 1 ? `ctrl-${name}` : undefined
  if (name === 'return' || name === 'enter') return 'enter'
  if (name === 'tab') return shift === true ? 'shift-tab' : 'tab'
  if (NAMED.includes(name)) return name
  return text !== undefined && /^[^\p{C}]$/u.test(text) ? text : undefined
}
