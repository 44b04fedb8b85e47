import { messageOf } from '../../../base/errors.js'
import { perform } from './perform.js'
import { press } from './press.js'
import { draw, pageOf } from './screen.js'
import { type Daemons, look, showTask } from './source.js'
import { type Effect, type Intent, initialState, looked, type Row, type TopState } from './state.js'
import { Terminal } from './terminal.js'

/** From one look to the next; a look that takes long is rarer, so that this costs a small share of a processor. */
const LOOK_MS = 1000
const LOOK_SHARE = 5

/** `spoold top`: keys and looks become states, states become screens. */
export class Top {
  #state: TopState
  readonly #hasColor: boolean
  readonly #daemons: Daemons
  readonly #terminal: Terminal
  #quit = () => {}
  readonly #whenOver = new Promise<void>(resolve => {
    this.#quit = resolve
  })
  #timer: NodeJS.Timeout | undefined
  #isLooking = false
  /** Something was asked for while it looked. */
  #isStale = false
  /** Acts take turns. */
  #acts = Promise.resolve()

  constructor(spools: readonly string[], hasColor: boolean, daemons: Daemons) {
    this.#state = initialState(spools)
    this.#hasColor = hasColor
    this.#daemons = daemons
    this.#terminal = new Terminal({
      key: key => this.#pressed(key),
      shownAnew: () => this.#draw(),
      gone: () => this.#quit(),
    })
  }

  /** Resolves when the user has left it. What was confirmed is done by then. */
  async run(): Promise<void> {
    this.#terminal.open()
    void this.#look()
    await this.#whenOver
    clearTimeout(this.#timer)
    await this.#terminal.close()
    await this.#acts
  }

  #pressed(key: string): void {
    const { state, effect } = press(this.#state, key, pageOf(this.#terminal.size))
    this.#become(state)
    if (effect !== undefined) this.#carryOut(effect)
  }

  #carryOut(effect: Effect): void {
    switch (effect.kind) {
      case 'quit':
        return this.#quit()
      case 'suspend':
        return void this.#terminal.suspend()
      case 'redraw':
        return this.#terminal.clear()
      case 'look':
        return void this.#look()
      case 'show':
        return void this.#show(effect.row)
      case 'act':
        return this.#act(effect.intent)
    }
  }

  #become(state: TopState): void {
    this.#state = state
    this.#draw()
  }

  #draw(): void {
    this.#terminal.draw(draw(this.#state, this.#terminal.size, this.#hasColor))
  }

  /** Looks now, and from then on again and again. */
  async #look(): Promise<void> {
    if (this.#isLooking) {
      this.#isStale = true
      return
    }
    clearTimeout(this.#timer)
    this.#isLooking = true
    const startedAt = performance.now()
    const { spool, tab, filter } = this.#state
    try {
      const found = await look({ spool, tab, filter, daemons: this.#daemons })
      this.#become(looked(this.#state, found)) // keys may have been pressed meanwhile
    } catch (error) {
      this.#say(messageOf(error))
    }
    this.#isLooking = false
    const tookMs = performance.now() - startedAt
    const waitMs = this.#isStale ? 0 : Math.max(LOOK_MS, LOOK_SHARE * tookMs)
    this.#isStale = false
    this.#timer = setTimeout(() => void this.#look(), waitMs)
  }

  async #show({ task }: Row): Promise<void> {
    if (task === undefined) return
    const { spool } = this.#state
    try {
      const lines = await showTask(spool, task.ref, this.#daemons)
      if (lines === undefined) return this.#say('it is gone: it has run, or was removed')
      this.#become({ ...this.#state, mode: { kind: 'text', title: 'task', lines, first: 0 }, message: '' })
    } catch (error) {
      this.#say(messageOf(error))
    }
  }

  #act(intent: Intent): void {
    const { spool } = this.#state
    this.#acts = this.#acts.then(async () => {
      this.#say(await perform(spool, intent, this.#daemons))
      void this.#look()
    })
  }

  #say(text: string): void {
    this.#become({ ...this.#state, message: text })
  }
}
