import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import type { PeriodicEntry, PeriodicStates, PeriodicTask, Rhythm } from '#src/base/task/schedule.js'
import { PeriodicTasks } from '#src/runtime/periodic/tasks.js'
import { until } from '../helpers/until.js'
import { STORES, type Store } from './stores.js'

const [SECOND, MINUTE, HOUR, DAY] = [1000, 60_000, 3_600_000, 86_400_000] as const
const START = Date.parse('2026-03-01T00:00:00Z')

/** Whole numbers below `limit`, the same in every run. */
function dice(seed: number): (limit: number) => number {
  let state = seed
  return limit => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * limit)
  }
}

const every = (everyMs: number, more: Partial<PeriodicTask> = {}): PeriodicTask => taskOf({ everyMs }, more)
const cron = (
  expression: string,
  zone: string | null = 'UTC',
  more: Partial<PeriodicTask> = {},
): PeriodicTask => taskOf({ expression, zone }, more)

function taskOf(when: Rhythm, more: Partial<PeriodicTask>): PeriodicTask {
  return { kind: 'periodic', name: 'tick', queue: 'default', missed: 'one', overlap: false, ...more, when }
}

interface Run {
  readonly name: string
  readonly by: string
  readonly machineMs: number
  readonly epochMs: number
}

/** Opens the store that the suite runs over now. */
let openStore: () => Store = () => assert.fail()

/** A spool with daemons on a machine whose clock the test sets. A stored run ends at once, unless `lasting` has its name. */
class World {
  machineMs = 12_345
  epochMs = START
  boot = 'first'
  readonly runs: Run[] = []
  readonly lines: string[] = []
  readonly store = openStore()
  /** The tasks that have not ended, and whether their runs have begun. */
  readonly lasting = new Map<string, 'waiting' | 'begun'>()
  refusal: string | undefined
  #named = 0

  readonly paused = new Set<string>()

  get states(): PeriodicStates {
    return {
      ...this.store.states,
      newTask: () => `task-${++this.#named}`,
      fateOf: task => this.lasting.get(task) ?? 'gone',
    }
  }

  pass(ms: number): void {
    this.machineMs += ms
    this.epochMs += ms
  }

  async entry(name = 'tick'): Promise<PeriodicEntry | undefined> {
    const { states } = this.store
    return (await states.read()).get(states.keyOf(name))?.entry
  }

  daemon(by = 'one', states = this.states, storing = async () => {}): PeriodicTasks {
    return new PeriodicTasks({
      states,
      isPaused: ({ name }) => this.paused.has(name),
      now: () => ({ epochMs: this.epochMs, machineMs: this.machineMs, boot: this.boot }),
      store: async ({ name }) => {
        if (this.refusal !== undefined) throw new Error(this.refusal)
        await storing()
        this.runs.push({ name, by, machineMs: this.machineMs, epochMs: this.epochMs })
      },
      leftOut: ({ name }, stored) => this.lines.push(`${name} left out: ${stored}`),
      damaged: ({ name }) => this.lines.push(`${name} damaged`),
      failed: error => this.lines.push(`failed: ${error}`),
    })
  }

  /** Lets a daemon look whenever it wants to, for `forMs`. */
  async live(daemon: PeriodicTasks, forMs: number): Promise<void> {
    const untilMs = this.machineMs + forMs
    for (;;) {
      const ms = await daemon.look()
      if (this.machineMs + ms >= untilMs) break
      assert.ok(ms >= 0)
      this.pass(Math.max(1, Math.ceil(ms)))
    }
    this.pass(untilMs - this.machineMs)
  }

  /** When runs were stored, in ms since the start. */
  get times(): number[] {
    return this.runs.map(({ epochMs }) => epochMs - START)
  }
}

async function living(tasks: readonly PeriodicTask[], world = new World(), by = 'one') {
  const daemon = world.daemon(by)
  daemon.set(tasks)
  await daemon.look()
  return { world, daemon }
}

/** A claimed run: the version of the entry that its daemon made before it stored the run. */
interface Claim {
  readonly name: string
  readonly version: number
  readonly machineMs: number
  stored: number
  isAgain: boolean
}

const PERIODS = [
  ['fast', 5 * MINUTE],
  ['slow', 37 * MINUTE],
  ['daily', DAY],
] as const

/** A daemon that may be killed or suspended before and after each step that other daemons can see. */
class Mortal {
  readonly #world: World
  readonly #roll: (limit: number) => number
  readonly #claims: Claim[]
  #daemon: PeriodicTasks | undefined
  #resume: (() => void) | undefined
  /** Called when what the daemon does now has ended, or waits for the test. */
  #settled = () => {}
  /** When the daemon looks, is resumed, or is started again. */
  atMs = 0
  state: 'dead' | 'idle' | 'suspended' = 'dead'
  kills = 0

  constructor(world: World, roll: (limit: number) => number, claims: Claim[]) {
    this.#world = world
    this.#roll = roll
    this.#claims = claims
  }

  /** Lets the daemon live on at `atMs`. */
  async act(): Promise<void> {
    if (this.state === 'dead') this.#start()
    else if (this.state === 'idle' && this.#roll(100) === 0) return this.#die()
    const isResumed = this.state === 'suspended'
    this.state = 'idle'
    this.atMs = Number.POSITIVE_INFINITY // until its look ends, or is cut short
    await new Promise<void>(settled => {
      this.#settled = settled
      if (isResumed) this.#resume?.()
      else void this.#look()
    })
  }

  async #look(): Promise<void> {
    const daemon = this.#daemon
    const ms = await daemon?.look()
    if (daemon !== this.#daemon || ms === undefined) return
    this.atMs = this.#world.machineMs + Math.max(1, Math.ceil(ms))
    this.#settled()
  }

  #die(): void {
    this.#daemon = undefined
    this.state = 'dead'
    this.kills++
    this.atMs = this.#world.machineMs + this.#roll(this.#roll(50) === 0 ? 9 * HOUR : 5 * MINUTE)
  }

  /** Ends at once, or after a suspension; never if the daemon is killed. */
  async #step(): Promise<void> {
    if (this.#roll(60) > 0) return
    if (this.#roll(2) === 0) {
      this.#die()
      this.#settled()
      return new Promise(() => {})
    }
    this.state = 'suspended'
    this.atMs = this.#world.machineMs + this.#roll(3 * HOUR)
    return new Promise(resolve => {
      this.#resume = resolve
      this.#settled()
    })
  }

  #start(): void {
    const world = this.#world
    let claimed: Claim | undefined
    const states: PeriodicStates = {
      ...world.states,
      advance: async (entry, from, isLasting) => {
        await this.#step()
        const isOurs = await world.states.advance(entry, from, isLasting)
        if (isOurs && isLasting && from > 0) {
          // the run is claimed again, because the daemon was suspended meanwhile
          if (claimed?.name === entry.name && claimed.version === from && claimed.stored === 0)
            claimed.isAgain = true
          claimed = {
            name: entry.name,
            version: from + 1,
            machineMs: world.machineMs,
            stored: 0,
            isAgain: false,
          }
          this.#claims.push(claimed)
        }
        await this.#step()
        return isOurs
      },
    }
    this.#daemon = world.daemon('mortal', states, async () => {
      if (claimed !== undefined) claimed.stored++
      await this.#step()
    })
    this.#daemon.set(PERIODS.map(([name, everyMs]) => every(everyMs, { name })))
  }
}

/** Seeds, and how many days the daemons live. */
const MONTHS = [1, 2, 3].map(seed => [seed, 30] as const)
const DAYS = [[4, 3]] as const

async function lives(seed: number, days: number) {
  const roll = dice(seed)
  const [world, claims] = [new World(), [] as Claim[]]
  const daemons = [1, 2, 3].map(() => new Mortal(world, roll, claims))
  const endsAtMs = world.machineMs + days * DAY
  let [blindMs, jumps] = [0, 0]
  /** The times in which each daemon was dead or suspended, by the machine's clock. */
  const blind: Array<readonly [fromMs: number, untilMs: number]> = []
  while (world.machineMs < endsAtMs) {
    const next = daemons.reduce((first, each) => (each.atMs < first.atMs ? each : first))
    const passesMs = Math.max(0, next.atMs - world.machineMs)
    if (daemons.every(({ state }) => state !== 'idle')) {
      blind.push([world.machineMs, world.machineMs + passesMs])
      blindMs += passesMs
    }
    world.pass(passesMs)
    await next.act()
    if (roll(300) > 0) continue
    world.epochMs += roll(20 * DAY) - 10 * DAY
    jumps++
  }
  return { claims, blind, blindMs, jumps, kills: daemons.reduce((sum, { kills }) => sum + kills, 0) }
}

for (const [engine, open] of Object.entries(STORES))
  describe(`periodic tasks remembered in ${engine}`, () => {
    before(() => {
      openStore = open
    })
    describe('a period', () => {
      it('passes before the first run, and between runs', async () => {
        const { world, daemon } = await living([every(5 * MINUTE)])
        await world.live(daemon, 16 * MINUTE)
        assert.deepEqual(world.times, [5 * MINUTE, 10 * MINUTE, 15 * MINUTE])
      })

      it('goes on across a restart', async () => {
        const { world } = await living([every(5 * MINUTE)])
        world.pass(3 * MINUTE)
        const { daemon } = await living([every(5 * MINUTE)], world)
        await world.live(daemon, 3 * MINUTE)
        assert.deepEqual(world.times, [5 * MINUTE])
      })

      it('starts anew whenever its length is changed, also back to what it was', async () => {
        const { world } = await living([every(5 * MINUTE)])
        world.pass(3 * MINUTE)
        const { daemon } = await living([every(4 * MINUTE)], world)
        await world.live(daemon, 2 * MINUTE)
        assert.deepEqual(world.times, [])
        daemon.set([every(5 * MINUTE)])
        await world.live(daemon, 6 * MINUTE)
        assert.deepEqual(world.times, [10 * MINUTE])
      })

      it('begins with each run, so that a late run moves the later ones', async () => {
        const { world, daemon } = await living([every(5 * MINUTE)])
        world.pass(5 * MINUTE + 30 * SECOND)
        await world.live(daemon, 6 * MINUTE)
        assert.deepEqual(world.times, [5.5 * MINUTE, 10.5 * MINUTE])
      })

      for (const [missed, expected] of [
        ['one', [DAY, DAY + 5 * MINUTE]],
        ['skip', [DAY + 5 * MINUTE]],
      ] as const)
        it(`is missed while no daemon runs: ${missed === 'one' ? 'one run makes up for all' : 'none makes up for it'}`, async () => {
          const { world } = await living([every(5 * MINUTE, { missed })])
          world.pass(DAY)
          const { daemon } = await living([every(5 * MINUTE, { missed })], world)
          await world.live(daemon, 6 * MINUTE)
          assert.deepEqual(world.times, expected)
        })

      it('is not affected when the clock is set back or forward, even if a daemon starts then', async () => {
        for (const jump of [-400 * DAY, -HOUR, 10 * MINUTE, 400 * DAY]) {
          const world = new World()
          const since = world.machineMs
          let { daemon } = await living([every(5 * MINUTE)], world)
          world.pass(MINUTE)
          world.epochMs += jump
          await world.live(daemon, 2 * MINUTE)
          ;({ daemon } = await living([every(5 * MINUTE)], world))
          await world.live(daemon, 8 * MINUTE)
          const at = world.runs.map(({ machineMs }) => machineMs - since)
          assert.deepEqual(at, [5 * MINUTE, 10 * MINUTE], `set by ${jump / MINUTE} min`)
        }
      })

      it('is never longer after a reboot, even if the clock was set back meanwhile', async () => {
        const { world } = await living([every(5 * MINUTE)])
        world.boot = 'second'
        world.machineMs = 7
        world.epochMs -= 30 * DAY
        const { daemon } = await living([every(5 * MINUTE)], world)
        await world.live(daemon, 6 * MINUTE)
        assert.equal(world.runs.length, 1)
        assert.equal(world.epochMs, START - 30 * DAY + 6 * MINUTE)
      })

      it('goes on by the time of day after a reboot', async () => {
        const { world } = await living([every(5 * MINUTE)])
        world.boot = 'second'
        world.machineMs = 9e12 // the new clock may say anything
        world.epochMs += 4 * MINUTE
        const { daemon } = await living([every(5 * MINUTE)], world)
        await world.live(daemon, 2 * MINUTE)
        assert.deepEqual(world.times, [5 * MINUTE])
      })
    })

    describe('cron times', () => {
      it('are those of the zone, once each, also when summer time begins', async () => {
        const world = new World()
        world.epochMs = Date.parse('2026-03-28T12:00:00Z')
        const { daemon } = await living([cron('30 2 * * *', 'Europe/Paris')], world)
        await world.live(daemon, 2 * DAY)
        const texts = world.runs.map(({ epochMs }) => new Date(epochMs).toISOString())
        // 02:30 does not exist on the 29th
        assert.deepEqual(texts, ['2026-03-29T01:00:00.000Z', '2026-03-30T00:30:00.000Z'])
      })

      it('are found within ten seconds after the clock was set past them, and do not repeat when it is set back', async () => {
        const { world, daemon } = await living([cron('0 3 * * *')])
        const sleepMs = await daemon.look()
        assert.ok(sleepMs <= 10 * SECOND, `${sleepMs} ms`)
        world.epochMs += 3 * HOUR + 5 * SECOND
        world.pass(sleepMs)
        await daemon.look()
        assert.equal(world.runs.length, 1)
        world.epochMs -= 20 * MINUTE
        await world.live(daemon, HOUR)
        assert.equal(world.runs.length, 1)
      })

      it('repeat when the clock is set back by more than an hour', async () => {
        const { world, daemon } = await living([cron('0 3 * * *')])
        world.epochMs += 300 * DAY
        await world.live(daemon, 4 * HOUR)
        const before = world.runs.length
        world.epochMs -= 300 * DAY
        await world.live(daemon, DAY)
        assert.equal(world.runs.length, before + 1)
      })

      for (const missed of ['one', 'skip'] as const)
        it(`that passed while no daemon ran are made up for as missed = ${missed} says`, async () => {
          const { world } = await living([cron('0 3 * * *', 'UTC', { missed })])
          world.pass(3 * DAY + 12 * HOUR)
          const { daemon } = await living([cron('0 3 * * *', 'UTC', { missed })], world)
          await world.live(daemon, DAY)
          const expected = missed === 'one' ? [3.5 * DAY, 4 * DAY + 3 * HOUR] : [4 * DAY + 3 * HOUR]
          assert.deepEqual(world.times, expected)
        })
    })

    describe('a run that has not ended', () => {
      it('keeps the next run from being stored, and is logged once', async () => {
        const { world, daemon } = await living([every(MINUTE)])
        world.lasting.set('task-1', 'begun')
        await world.live(daemon, 4.5 * MINUTE)
        assert.deepEqual(world.times, [MINUTE])
        assert.deepEqual(world.lines, ['tick left out: task-1'])
        world.lasting.clear()
        await world.live(daemon, MINUTE)
        assert.deepEqual(world.times, [MINUTE, 5 * MINUTE])
      })

      it('with overlap, keeps the next run from being stored only until it has begun, so that never two wait', async () => {
        const { world, daemon } = await living([every(MINUTE, { overlap: true })])
        world.lasting.set('task-1', 'waiting')
        await world.live(daemon, 3.5 * MINUTE)
        assert.deepEqual(world.times, [MINUTE])
        world.lasting.set('task-1', 'begun')
        await world.live(daemon, MINUTE)
        assert.deepEqual(world.times, [MINUTE, 4 * MINUTE])
      })

      it('keeps the next run from being stored even if its daemon was killed as soon as it was stored', async () => {
        const { world } = await living([every(MINUTE)])
        world.lasting.set('task-1', 'begun')
        const killed = world.daemon('killed', {
          ...world.states,
          advance: (entry, from, isLasting) =>
            world.runs.length > 0 ? new Promise(() => {}) : world.states.advance(entry, from, isLasting),
        })
        killed.set([every(MINUTE)])
        world.pass(MINUTE)
        void killed.look()
        await until('the run is stored', () => world.runs.length === 1)
        const { daemon } = await living([every(MINUTE)], world)
        await world.live(daemon, 5 * MINUTE)
        assert.deepEqual(world.times, [MINUTE])
        world.lasting.clear()
        await world.live(daemon, MINUTE)
        assert.equal(world.times.length, 2)
      })

      it('keeps the next run from being stored after a restart with another period, too', async () => {
        const { world, daemon } = await living([every(MINUTE)])
        world.lasting.set('task-1', 'waiting')
        await world.live(daemon, 1.5 * MINUTE)
        const next = await living([every(2 * MINUTE)], world)
        await world.live(next.daemon, 5 * MINUTE)
        assert.deepEqual(world.times, [MINUTE])
      })
    })

    describe('several daemons', () => {
      it('store each run once, even if they look at the same moment', async () => {
        const world = new World()
        const daemons = await Promise.all(['a', 'b', 'c'].map(by => living([every(SECOND)], world, by)))
        for (let i = 0; i < 100; i++) {
          world.pass(SECOND)
          await Promise.all(daemons.map(({ daemon }) => daemon.look()))
        }
        assert.equal(world.runs.length, 100)
      })

      it('leave a task to the daemons that know it', async () => {
        const world = new World()
        const { daemon: knowing } = await living([every(DAY)], world)
        const { daemon: other } = await living([], world)
        for (let i = 0; i < 10; i++) {
          world.pass(DAY)
          assert.ok((await other.look()) > 0)
          await knowing.look()
          await other.look()
        }
        assert.equal(world.runs.length, 10)
      })

      it('forget a task a minute after its time if no daemon knows it any more', async () => {
        const { world } = await living([every(HOUR)])
        const { daemon } = await living([], world)
        world.pass(HOUR)
        const ms = await daemon.look()
        assert.ok(ms > 0 && ms <= MINUTE, String(ms))
        assert.notEqual(await world.entry(), undefined)
        world.pass(ms)
        await daemon.look()
        assert.equal(await world.entry(), undefined)
        const { daemon: again } = await living([every(HOUR)], world)
        await world.live(again, HOUR + MINUTE)
        assert.deepEqual(world.times, [2 * HOUR + MINUTE])
      })

      it('store a run once even if one is suspended while it claims the run, and killed when the run is stored', async () => {
        const { world } = await living([every(5 * MINUTE)])
        const { states } = world
        let isSuspended = true
        const slow: PeriodicStates = {
          ...states,
          advance: (...args) => {
            if (isSuspended) world.pass(10 * MINUTE)
            isSuspended = false
            return states.advance(...args)
          },
        }
        await new Promise<void>(stored => {
          const killed = world.daemon('killed', slow, () => {
            stored()
            return new Promise(() => {})
          })
          killed.set([every(5 * MINUTE)])
          world.pass(5 * MINUTE)
          void killed.look()
        })
        const { daemon } = await living([every(5 * MINUTE)], world)
        await world.live(daemon, 4 * MINUTE)
        assert.deepEqual(world.times, [])
        await world.live(daemon, 2 * MINUTE)
        assert.deepEqual(world.times, [20 * MINUTE])
      })

      it('that start after a long time do not at once forget a task that others may still get to know', async () => {
        const { world } = await living([every(HOUR)])
        world.pass(DAY)
        const { daemon } = await living([], world)
        assert.ok((await daemon.look()) >= MINUTE)
        assert.notEqual(await world.entry(), undefined)
      })

      it('with different periods for a task follow the daemon loaded last, and take over when that is gone', async () => {
        const world = new World()
        const { daemon: old } = await living([every(5 * MINUTE)], world)
        const { daemon: young } = await living([every(7 * MINUTE)], world, 'young')
        for (let at = 0; at < 30 * MINUTE; at += MINUTE) {
          world.pass(MINUTE)
          await old.look()
          await young.look()
        }
        assert.deepEqual(
          world.times,
          [7, 14, 21, 28].map(minutes => minutes * MINUTE),
        )
        assert.ok(world.runs.every(({ by }) => by === 'young'))
        await world.live(old, 20 * MINUTE) // the run is due at 35 min, its daemon is given up at 36 min, and then 5 min pass
        assert.deepEqual(
          world.times.slice(4),
          [41, 46].map(minutes => minutes * MINUTE),
        )
      })
    })

    describe('trouble', () => {
      it('in storing a run is logged once, and only the last missed run is stored later', async () => {
        const { world, daemon } = await living([every(5 * MINUTE)])
        world.refusal = 'disk full'
        await world.live(daemon, 11 * MINUTE)
        assert.deepEqual(world.times, [])
        assert.deepEqual(world.lines, ['failed: disk full'])
        world.refusal = undefined
        await world.live(daemon, 2 * MINUTE)
        assert.equal(world.runs.length, 1)
        await world.live(daemon, 5 * MINUTE)
        assert.equal(world.runs.length, 2)
      })

      it('in writing the entry stores no run, is logged once, and is retried ever more slowly', async () => {
        const world = new World()
        let looks = 0
        const refused: PeriodicStates = {
          ...world.states,
          advance: async () => {
            looks++
            throw new Error('read-only')
          },
        }
        const daemon = world.daemon('one', refused)
        daemon.set([every(5 * MINUTE)])
        await world.live(daemon, HOUR)
        assert.deepEqual(world.lines, ['failed: read-only'])
        assert.ok(looks > 50 && looks < 75, `${looks} looks`)
        assert.equal(world.runs.length, 0)
      })

      it('of one task does not delay the others', async () => {
        const world = new World()
        const { states } = world
        const daemon = world.daemon('one', {
          ...states,
          advance: async (entry, ...rest) => {
            if (entry.name === 'bad') throw new Error('bad')
            return states.advance(entry, ...rest)
          },
        })
        daemon.set([every(MINUTE, { name: 'bad' }), every(MINUTE)])
        await world.live(daemon, 5.5 * MINUTE)
        assert.deepEqual(
          world.times,
          [1, 2, 3, 4, 5].map(minutes => minutes * MINUTE),
        )
      })

      it('with a damaged entry is logged, and the task starts anew', async () => {
        const { world } = await living([every(5 * MINUTE)])
        world.pass(3 * MINUTE)
        await world.store.damage('tick')
        const { daemon } = await living([every(5 * MINUTE)], world)
        await world.live(daemon, 6 * MINUTE)
        assert.deepEqual(world.lines, ['tick damaged'])
        assert.deepEqual(world.times, [8 * MINUTE])
      })

      it('from the removal of all entries makes the task start anew', async () => {
        const { world, daemon } = await living([every(5 * MINUTE)])
        world.pass(3 * MINUTE)
        await world.store.clear()
        await world.live(daemon, 6 * MINUTE)
        assert.deepEqual(world.times, [8 * MINUTE])
      })
    })

    describe('three daemons that are killed and suspended for many days while the clock is set', () => {
      for (const [seed, days] of engine === 'memory' ? MONTHS : DAYS)
        it(`store no run twice, and miss at most one run per kill (seed ${seed})`, async () => {
          const { claims, blind, blindMs, kills, jumps } = await lives(seed, days)
          assert.ok(
            kills > 3 * days && jumps > days && blindMs > (days / 30) * HOUR,
            `${kills} kills, ${jumps} jumps, ${blindMs} ms blind`,
          )
          assert.equal(
            claims.reduce((most, { stored }) => Math.max(most, stored), 0),
            1,
          )
          const made = claims.filter(({ isAgain }) => !isAgain)
          const missed = made.filter(({ stored }) => stored === 0).length
          assert.ok(missed > 0 && missed <= kills, `${missed} missed, ${kills} kills`)
          for (const [name, everyMs] of PERIODS) {
            const own = made.filter(claim => claim.name === name)
            const stored = own.filter(claim => claim.stored > 0).map(({ machineMs }) => machineMs)
            for (const [i, time] of stored.slice(1).entries())
              assert.ok(time - (stored[i] ?? 0) >= everyMs, `${name}: twice in ${time - (stored[i] ?? 0)} ms`)
            const times = own.map(({ machineMs }) => machineMs)
            for (const [i, time] of times.slice(1).entries()) {
              const before = times[i] ?? 0
              const nobodyMs = blind.reduce(
                (sum, [from, until]) => sum + Math.max(0, Math.min(until, time) - Math.max(from, before)),
                0,
              )
              const text = `${name}: not for ${time - before} ms, ${nobodyMs} ms of them without a daemon`
              // a daemon that is suspended while it stores a run begins the period again
              assert.ok(time - before <= 2 * everyMs + nobodyMs, text)
            }
          }
        })
    })
  })
