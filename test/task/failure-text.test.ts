import assert from 'node:assert/strict'
import { it } from 'node:test'
import { failureLine, failureText, stackOf } from '#src/base/task/failure-text.js'

const TOP = 'Traceback (most recent call last):'
const place = (line: number) => `  File "/srv/tasks.py", line ${line}, in f\n    f()\n    ~^^`

/** As Python 3.11 prints it. */
const GROUP = `  + Exception Group Traceback (most recent call last):
  |   File "/srv/tasks.py", line 19, in spooler
  |     raise ExceptionGroup('many', errors)
  | ExceptionGroup: many (3 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: one
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/srv/tasks.py", line 12, in f
    |     f()
    | KeyError: 'two'
    +---------------- 3 ----------------
    | E: three
    +------------------------------------`

it('the one line of a failure says what went wrong, as written above its stack or below Python’s traceback', () => {
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
    ['Error: no\r\nmore', 'Error: no'],
    ["/srv/a.rb:8:in `rescue in f': outer (E)\n[cause]: a.rb:6:in 'C.f': inner (E)", 'outer (E): inner (E)'],
    [GROUP, "ExceptionGroup: many (3 sub-exceptions): ValueError: one: KeyError: 'two': E: three"],
    [`${TOP}\n${place(1)}\nKeyError: 1\n\nThe above …:\n\n${GROUP}`, failureLine(GROUP)],
    [`${GROUP}\n\nDuring …:\n\n${TOP}\n${place(2)}\nValueError: 2`, 'ValueError: 2'],
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
  assert.match(failureLine(long), /^KeyError: é+$/, 'a cut message keeps its class and its beginning')
  const below = failureText(`Error: ${'x'.repeat(5000)}\n  at f\n[cause]: Error: deadlock\n  at g`, 1000)
  assert.ok(below.length <= 1000 && failureLine(below).endsWith('xxx: deadlock'), below)
  const stack = `Error: no\n${'  at f\n'.repeat(500)}`
  assert.equal(failureText(stack, 1000), stack.slice(0, 1000))
})

for (const code of ['', ' [ERR_INVALID_TYPESCRIPT_SYNTAX]'])
  it(`the stack begins with the error, and has the place that Node puts before it as a frame: SyntaxError${code}`, () => {
    const error = Object.assign(
      new SyntaxError('Expression expected'),
      code === '' ? {} : { code: code.slice(2, -1) },
    )
    const own = `SyntaxError${code}: Expression expected`
    error.stack = `/srv/broken.ts:1\nconst a = = 3\n          ^\n\n${own}\n    at parse (node:internal/x:72:36)`
    assert.equal(stackOf(error), `${own}\n    at /srv/broken.ts:1`)
  })
