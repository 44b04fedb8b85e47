import { messageOf } from '../../base/errors.js'
import { CONDITIONS, LOOPS, type LogicContext, type Verdict } from './logic-rules.js'
import type { Problems, Setting } from './setting.js'

const END = new Set(['end', 'endfor', 'endif', 'end-if', 'end-for'])
const ELSE = 'else'

export const LOGIC_KEYS: readonly string[] = [...CONDITIONS.keys(), ...LOOPS.keys(), ELSE, ...END]

/** True if this logic key needs a value on the command line. */
export function logicTakesValue(key: string): boolean {
  return (CONDITIONS.has(key) || LOOPS.has(key)) && !key.endsWith('reload')
}

interface Block {
  /** The line that opened it. */
  readonly opening: Setting
  readonly isElse: boolean
  /** The last result of the condition. */
  verdict?: Verdict
}

/**
 * The `for…`, `if-…`, `else` and `end…` of uWSGI's ini (core/config.c). They are not blocks, but a rule that applies to each
 * following line separately, so `for = a b` over two lines gives a, b of the first and then a, b of the second. They do not nest,
 * and do not end with the file.
 */
export class IniLogic {
  readonly #problems: Problems
  readonly #context: LogicContext
  #block: Block | undefined

  constructor(problems: Problems, context: LogicContext) {
    this.#problems = problems
    this.#context = context
  }

  get isOpen(): boolean {
    return this.#block !== undefined
  }

  /** Opens a rule if the setting is one. Call it for every key that is kept, wherever it comes from. */
  begin(setting: Setting): void {
    if (!CONDITIONS.has(setting.key) && !LOOPS.has(setting.key)) return
    if (this.#block === undefined) {
      this.#block = { opening: setting, isElse: false }
      return
    }
    const { opening } = this.#block
    this.#problems.error(
      setting.where,
      `"${setting.key}" cannot stand inside "${opening.key}" (they do not nest); write end = before it`,
    )
  }

  /** Ends or turns the open rule. @returns true if the line was an `end…` or `else`, to which no rule applies */
  turn({ key, where }: Setting): boolean {
    if (END.has(key)) {
      if (this.#block === undefined)
        this.#problems.warning(where, `"${key}" ends nothing: no for or if is open`)
      this.#block = undefined
      return true
    }
    if (key !== ELSE) return false
    const block = this.#block
    if (block === undefined || block.isElse || LOOPS.has(block.opening.key))
      this.#problems.warning(where, '"else" has no effect here: it belongs between an if and its end, once')
    else this.#block = { ...block, isElse: true, verdict: block.verdict ?? this.#judge(block.opening) }
    return true
  }

  /** Yields what a line under the open rule becomes: itself, nothing, or one setting per repetition. */
  *apply(setting: Setting): Generator<Setting> {
    if (this.#block === undefined) return yield setting
    const { opening, isElse } = this.#block
    const loop = LOOPS.get(opening.key)
    if (isElse) {
      if (this.#block.verdict?.isTrue === false) yield setting
    } else if (loop === undefined) {
      this.#block.verdict = this.#judge(opening)
      if (this.#block.verdict.isTrue) yield withItem(setting, this.#block.verdict.item)
    } else {
      for (const item of this.#itemsOf(opening, loop)) yield withItem(setting, item)
    }
  }

  /** Warns if a rule is still open at the end of the configuration. */
  finish(): void {
    if (this.#block === undefined) return
    const { key, value, where } = this.#block.opening
    this.#problems.warning(
      where,
      `"${key} = ${value}" is never ended, so all that follows is inside; write end =`,
    )
  }

  #judge({ key, value, where }: Setting): Verdict {
    try {
      return CONDITIONS.get(key)?.(value, this.#context) ?? NO
    } catch (error) {
      this.#problems.error(where, `${key}: ${messageOf(error)}`)
      return NO
    }
  }

  /** Returns the items of a loop. If its file cannot be read, nothing is repeated and reading continues, as in uWSGI. */
  #itemsOf({ key, value, where }: Setting, loop: (argument: string) => Iterable<string>): Iterable<string> {
    try {
      return loop(value)
    } catch (error) {
      this.#problems.warning(
        where,
        `${key}: ${value} cannot be read, so nothing is repeated: ${messageOf(error)}`,
      )
      return []
    }
  }
}

const NO: Verdict = { isTrue: false, item: undefined }

function withItem(setting: Setting, item: string | undefined): Setting {
  return item === undefined ? setting : { ...setting, value: setting.value.replaceAll('%(_)', () => item) }
}
