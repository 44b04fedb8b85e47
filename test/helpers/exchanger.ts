import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { TestProcess } from './process.js'
import { PYTHON } from './python.js'
import { workspace } from './workspace.js'

/** Atomically exchanges each pair of names, with hardly a pause, as a given user. A `*` ends a prefix of names. */
const SCRIPT = `
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
uid, rest, pairs = int(sys.argv[1]), int(sys.argv[2]), [os.fsencode(each) for each in sys.argv[3:]]
os.setgroups([]); os.setgid(uid); os.setuid(uid)
print('exchanging', flush=True)
def names(path):
    if not path.endswith(b'*'): return [path]
    directory, start = os.path.split(path[:-1])
    return [os.path.join(directory, name) for name in os.listdir(directory) if name.startswith(start)]
n = 0
while True:
    for i in range(0, len(pairs), 2):
        for name in names(pairs[i]):
            libc.renameat2(-100, name, -100, pairs[i + 1], 2)
    n += 1
    for _ in range(n % 7 * rest): pass
`

/** Exchanges pairs of names until it is killed, at the latest when the test ends. @param rest how long the pauses are; 0: none */
export async function exchangeNames(
  uid: number,
  pairs: ReadonlyArray<readonly [string, string]>,
  rest = 300,
): Promise<TestProcess> {
  const script = join(workspace(), 'exchange.py')
  writeFileSync(script, SCRIPT)
  const exchanger = new TestProcess(PYTHON, [script, String(uid), String(rest), ...pairs.flat()])
  await exchanger.waitFor('exchanging')
  return exchanger
}
