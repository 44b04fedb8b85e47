import { execFileSync } from 'node:child_process'
import { until } from './until.js'

let count = 0

/** A terminal that a program sees and types into: a tmux server of its own, with one pane. */
export class Pane {
  readonly #socket = `spoold-test-${process.pid}-${++count}`

  /** @param command a command line for a shell; the terminal is gone when it has ended */
  constructor(columns: number, rows: number, command: string, env: Readonly<Record<string, string>> = {}) {
    const variables = Object.entries(env).flatMap(([name, value]) => ['-e', `${name}=${value}`])
    const size = ['-x', String(columns), '-y', String(rows)]
    this.#run(
      'start-server',
      ';',
      'set',
      '-g',
      'status',
      'off',
      ';',
      'new-session',
      '-d',
      ...size,
      ...variables,
      command,
    )
  }

  /** Types keys, as tmux names them: `a`, `Space`, `C-c`, `PageDown`. */
  type(...keys: string[]): void {
    this.#run('send-keys', ...keys)
  }

  /** Types a text as it is. */
  typeText(text: string): void {
    this.#run('send-keys', '-l', text)
  }

  resize(columns: number, rows: number): void {
    this.#run('resize-window', '-x', String(columns), '-y', String(rows))
  }

  /** Returns what is on the screen. @param withStyles true: with the escape sequences of styles */
  screen(withStyles = false): string {
    return this.#run('capture-pane', '-p', ...(withStyles ? ['-e'] : []))
  }

  /** Returns a fact about the pane, by tmux's name for it: `alternate_on`, `cursor_flag`, `pane_pid`. */
  fact(name: string): string {
    return this.#run('display-message', '-p', `#{${name}}`).trim()
  }

  /** Waits until the screen shows something, and returns the screen. */
  waitFor(shown: RegExp): Promise<string> {
    return until(`the screen shows ${shown}; it is\n${this.#tryScreen()}`, () => {
      const screen = this.#tryScreen()
      return shown.test(screen) ? screen : undefined
    })
  }

  get isOver(): boolean {
    try {
      this.#run('has-session')
      return false
    } catch {
      return true
    }
  }

  close(): void {
    try {
      this.#run('kill-server')
    } catch {} // the server has ended with its pane
  }

  #tryScreen(): string {
    try {
      return this.screen()
    } catch (error) {
      return `no screen: ${error}`
    }
  }

  #run(...args: string[]): string {
    const env = { PATH: process.env.PATH, LC_ALL: 'C.UTF-8', HOME: '/', TERM: 'xterm' }
    return execFileSync('tmux', ['-u', '-L', this.#socket, '-f', '/dev/null', ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      env,
    })
  }
}
