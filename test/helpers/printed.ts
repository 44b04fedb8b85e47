import assert from 'node:assert/strict'

/** Returns what each task printed in lines `<name> <text>`. Asserts that each is between that task's `managing` and `done`. */
export function printedBetween(log: string): Map<string, string[]> {
  const printed = new Map<string, string[]>()
  const running = new Set<string>()
  for (const line of log.split('\n')) {
    if (/^\*\*\* spoold \S+ is running \(pid: \d+\) \*\*\*$/.test(line)) continue // the first tasks may have begun by then
    const [, begun] = /\] managing request (\S+) \.\.\.$/.exec(line) ?? []
    const [, done] = /\] done with task (\S+) after /.exec(line) ?? []
    if (begun !== undefined) {
      running.add(begun)
      printed.set(begun, [])
    } else if (done !== undefined) {
      assert.ok(running.delete(done), line)
    } else if (running.size > 0) {
      const [name = '', ...rest] = line.split(' ')
      assert.ok(running.has(name), `the line is torn, or its task does not run: ${line}`)
      printed.get(name)?.push(rest.join(' '))
    }
  }
  assert.deepEqual([...running], [])
  return printed
}
