/** Moves `Date` for all code of this process, on top of a `Date` that a test framework has installed. Timers are left alone. */
export class TestClock {
  #before: DateConstructor | undefined
  #own: DateConstructor | undefined
  #movedMs = 0

  move(ms: number): void {
    this.#install()
    this.#movedMs += ms
  }

  restore(): void {
    if (this.#before !== undefined && globalThis.Date === this.#own) globalThis.Date = this.#before
    this.#before = undefined
    this.#movedMs = 0
  }

  #install(): void {
    if (this.#before !== undefined) return
    const before = globalThis.Date
    const now = () => before.now() + this.#movedMs
    this.#before = before
    this.#own = new Proxy(before, {
      get: (target, key) => (key === 'now' ? now : Reflect.get(target, key)),
      apply: () => new before(now()).toString(),
      construct: (target, args, newTarget) =>
        Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget),
    })
    globalThis.Date = this.#own
  }
}
