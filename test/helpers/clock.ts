import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { workspace } from './workspace.js'

/** A program and its workers load this first. It shifts their wall clock by the seconds in the file that OFFSET names. */
const PRELOAD = `
  import { readFileSync } from 'node:fs'
  const RealDate = Date
  let offsetMs = 0
  const look = () => { try { offsetMs = Number(readFileSync(process.env.OFFSET, 'utf8')) * 1000 } catch {} }
  look()
  setInterval(look, 10).unref()
  globalThis.Date = class extends RealDate {
    constructor(...args) { if (args.length === 0) super(RealDate.now() + offsetMs); else super(...args) }
    static now() { return RealDate.now() + offsetMs }
  }`

interface MovableClock {
  /** The environment of programs with this clock. */
  readonly env: NodeJS.ProcessEnv
  /** Makes the clock wrong by this many seconds from now on. */
  jump(seconds: number): void
}

/** Makes a wall clock for a daemon, its workers and its handlers. The clock is right at first. */
export function movableClock(): MovableClock {
  const directory = workspace()
  const [preload, offset] = [join(directory, 'clock.mjs'), join(directory, 'offset')]
  const jump = (seconds: number) => writeFileSync(offset, String(seconds))
  writeFileSync(preload, PRELOAD)
  jump(0)
  return { env: { NODE_OPTIONS: `--import=${preload}`, OFFSET: offset }, jump }
}

/** Makes a clock by which a minute begins in this many seconds. */
export function clockBeforeMinute(seconds: number): MovableClock {
  const clock = movableClock()
  clock.jump((60 - seconds - ((Date.now() / 1000) % 60) + 60) % 60)
  return clock
}
