import assert from 'node:assert/strict'
import { it } from 'node:test'
import { failureLine, failureText } from '#src/base/task/failure-text.js'

const TOP = 'Traceback (most recent call last):'
const place = (line: number) => `  File "/srv/tasks.py", line ${line}, in f\n    f()\n    ~^^`

it('a failure in one line is what went wrong, above its stack or below Python’s traceback', () => {
  for (const [text, line] of [
    ['', ''],
    ['no room', 'no room'],
    ['Error: no\n  at file:///srv/tasks.mjs:1:1', 'Error: no'],
    ['TypeError: no\n  at f\n[cause]: Error: refused\n  at g\n[cause]: E: 5', 'TypeError: no: refused: E: 5'],
    ['gone\n[cause]: Error: gone\n  at g', 'gone'],
    [`${TOP}\n${place(1)}\n${place(2)}\nKeyError: 'a'`, "KeyError: 'a'"],
    [`${TOP}\n${place(1)}\nmail.Refused: 550\n  File it elsewhere\nor not`, 'mail.Refused: 550'],
    [`${TOP}\n${place(1)}\nKeyError: 1\n\nDuring …:\n\n${TOP}\n${place(2)}\nValueError: 2`, 'ValueError: 2'],
    [`${TOP}\n${place(1)}`, TOP],
  ] as const)
    assert.equal(failureLine(text), line)
})

it('a failure that is cut keeps what went wrong', () => {
  const deep = `${TOP}\n${Array.from({ length: 200 }, (_, i) => place(i)).join('\n')}\nKeyError: 'a'`
  const kept = failureText(deep, 1000)
  assert.equal(kept.length, 1000)
  assert.deepEqual([kept.split('\n')[0], failureLine(kept)], [TOP, "KeyError: 'a'"])
  assert.equal(failureText(deep, deep.length), deep)
  const long = failureText(`${deep.replace("'a'", 'é'.repeat(5000))}\nmore`, 1000)
  assert.equal(long.length, 1000)
  assert.match(
    failureLine(long),
    /^KeyError: é+$/,
    'of a message without an end, the class and its beginning',
  )
  const stack = `Error: no\n${'  at f\n'.repeat(500)}`
  assert.equal(failureText(stack, 1000), stack.slice(0, 1000))
})
