import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { workspace } from './workspace.js'

/** Loaded before a program and its workers: their wall clock is off by as many seconds as the file of OFFSET says. */
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
  /** From now on it is off by so many seconds. */
  jump(seconds: number): void
}

/** A wall clock of its own for a daemon, its workers and its handlers. It is right at first. */
export function movableClock(): MovableClock {
  const directory = workspace()
  const [preload, offset] = [join(directory, 'clock.mjs'), join(directory, 'offset')]
  const jump = (seconds: number) => writeFileSync(offset, String(seconds))
  writeFileSync(preload, PRELOAD)
  jump(0)
  return { env: { NODE_OPTIONS: `--import=${preload}`, OFFSET: offset }, jump }
}

/** A clock by which a minute begins in so many seconds. */
export function clockBeforeMinute(seconds: number): MovableClock {
  const clock = movableClock()
  clock.jump((60 - seconds - ((Date.now() / 1000) % 60) + 60) % 60)
  return clock
}
