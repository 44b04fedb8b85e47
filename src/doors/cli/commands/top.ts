import { actOnTasks, type Tally } from '../../../admin/operate/act.js'
import { findAction, type TaskAction } from '../../../admin/operate/actions.js'
import { messageOf, SpooldError } from '../../../base/errors.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { type AuditEntry, namesForAudit } from '../../../engines/spool/admin/audit.js'
import type { TaskStore } from '../../../engines/task-store.js'
import { asOwners, ownerOf } from '../acting-owner.js'
import { audit } from '../audit.js'
import type { CommandContext } from '../context.js'
import { type IniOptions, type Place, placeAt, spoolsOf } from '../places.js'
import { countText } from '../render.js'
import { statusAt } from '../status/spool-status.js'
import { press } from '../top/press.js'
import { draw, pageOf } from '../top/screen.js'
import { type Daemons, look, showTask } from '../top/source.js'
import { type Effect, type Intent, initialState, looked, type Row, type TopState } from '../top/state.js'
import { checkTerminal, Terminal } from '../top/terminal.js'

interface TopOptions extends IniOptions {
  readonly control?: string
}

/**
 * `spoold top DIR…`: shows spools on the whole screen until the user quits.
 *
 * @throws SpooldError USAGE if there is no screen to draw on, or if the spools belong to several users
 */
export async function top(
  named: readonly string[],
  { control, ...options }: TopOptions,
  context: CommandContext,
): Promise<number> {
  const { output, ownProcess, env, screen } = context
  output.purpose = 'look'
  const places =
    control === undefined ? await spoolsOf(named, options, context) : await spoolsAt(control, named, options)
  checkTerminal(env)
  const owners = new Set(places.map(({ spool }) => ownerOf(spool)?.uid))
  if (owners.size > 1)
    throw new SpooldError(
      'USAGE',
      `${places.map(({ shown }) => shown).join(', ')} belong to several users, and top acts as one: name the spools of one user`,
    )
  return asOwners(ownProcess, places, async mine => {
    const spools = mine.map(({ shown }) => shown)
    await new Top(spools, screen().hasColor, control === undefined ? {} : { sockets: [control] }).run()
    return 0
  })
}

/** Returns the spools of the daemon that listens at `control`. @throws SpooldError USAGE, SPOOL_UNUSABLE if none answers */
async function spoolsAt(control: string, named: readonly string[], { ini }: IniOptions): Promise<Place[]> {
  if (named.length > 0 || ini !== undefined)
    throw new SpooldError(
      'USAGE',
      'with --control PATH, the daemon says which spools: name none, and no --ini',
    )
  const statuses = await statusAt(control, false)
  for (const status of statuses)
    if (status.source === 'none')
      throw new SpooldError('SPOOL_UNUSABLE', `there is nothing to watch at ${control}: ${status.because}`)
  return statuses.map(({ directory: spool }) => ({ shown: spool, spool }))
}

/** The least time between two looks that no key asked for. */
const LOOK_MS = 1000
/** The next look waits this many times as long as the last one took, so that looks use a small share of a processor. */
const LOOK_SHARE = 5

/** The loop of `spoold top`: each key and each look changes the state, and each state is drawn. */
class Top {
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
  /** True if another look was asked for during the current one. */
  #isStale = false
  /** Resolves when the last confirmed action is done: actions run one after another. */
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

  /** Shows the screen, and resolves when the user has left it. Every confirmed action is done by then. */
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

  /** Looks now, and repeats that until the end. */
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

/** Carries out a confirmed action, after it has been written into the audit. @returns the outcome, for people */
async function perform(directory: string, intent: Intent, { sockets }: Daemons): Promise<string> {
  const { action: name, args } = intent
  const action = findAction(name)
  if (action === undefined) return `${name} is no action`
  const unaudited: string[] = []
  const announced = (store: TaskStore, about: Partial<AuditEntry>) =>
    audit(store, { action: name, ...about }, { complain: text => unaudited.push(text) })
  const done = async () => {
    const { spool } = placeAt(directory)
    if (action.on === 'task') return onTasks(spool, action, intent, sockets, announced)
    const store = await openTaskStore(spool)
    await announced(store, Object.keys(args).length === 0 ? {} : { filter: JSON.stringify(args) })
    return action.run(spool, args, { sockets })
  }
  const text = await done().catch(error => `${name}: ${messageOf(error)}`)
  return [text, ...unaudited].join('; ')
}

async function onTasks(
  spool: string,
  action: TaskAction,
  { rows }: Intent,
  sockets: Daemons['sockets'],
  announced: (store: TaskStore, about: Partial<AuditEntry>) => Promise<void>,
): Promise<string> {
  const refs = rows.flatMap(({ task }) => task?.ref ?? [])
  const store = await openTaskStore(spool, { sockets })
  await announced(store, { task: namesForAudit(refs), count: refs.length })
  return outcome(action.done, await actOnTasks(store, action, refs))
}

function outcome(verb: string, { done, gone, running, refused, detail }: Tally): string {
  return [
    `${countText(done)} ${verb}`,
    ...(gone === 0 ? [] : [`${countText(gone)} gone: they have run, or were removed`]),
    ...(running === 0 ? [] : [`${countText(running)} run, and were left alone`]),
    ...(refused === 0 ? [] : [`${countText(refused)} refused: ${detail}`]),
  ].join('; ')
}
