// The effect of tasks that kill their process on the other tasks.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { encodePacket } from '../build/src/formats/protocol/packet.js'
import { BIN, fill, inPairs, leftOnTmpfs, ROOT, start, until, withDirectory } from './harness.mjs'

const KINDS = ['abort', 'exit-0', 'exit-1', 'memory', 'loop', 'rejection', 'stack']
/** The handler. A good task waits for something, as most tasks do. */
const HANDLER = `
  import { poison } from ${JSON.stringify(join(ROOT, 'fixtures/handlers/poison.mjs'))}
  export default (env, task) =>
    env.do === undefined ? new Promise(resolve => setTimeout(() => resolve(task.SPOOL_OK), 5)) : poison[env.do]()
`

/** Returns good tasks per second, from the first one that is done to the last one. */
async function rate(count, poison) {
  return withDirectory('memory', async directory => {
    const [spool, handler] = ['spool', 'handler.mjs'].map(name => join(directory, name))
    writeFileSync(handler, HANDLER)
    fill(spool, count)
    for (const kind of poison)
      writeFileSync(join(spool, kind), encodePacket([[Buffer.from('do'), Buffer.from(kind)]]), {
        mode: 0o600,
      })
    const options = {
      'spooler-processes': 4,
      'spooler-frequency': 1,
      'spooler-harakiri': 1,
      'spooler-max-attempts': 3,
    }
    const flags = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
    const daemon = start(
      'env',
      ['NODE_OPTIONS=--max-old-space-size=64', process.execPath, BIN].concat(
        ['--spooler', spool, '--spooler-import', handler, '--spooler-quiet'],
        flags,
      ),
      join(directory, 'log'),
    )
    try {
      await until('it begins', () => leftOnTmpfs(spool) < count)
      const since = performance.now()
      // .spoold remains, and the poison tasks wait between their crashes
      await until('the good ones are done', () => leftOnTmpfs(spool) <= KINDS.length + 1)
      return { 'good tasks per second': (count * 1000) / (performance.now() - since) }
    } finally {
      await daemon.stop()
    }
  })
}

export const title = 'Good tasks among poison'
export const about = `tmpfs, four processes, 15,000 tasks that wait 5 ms each; with and without seven that abort, exit (0 and
1), run out of memory (64 MB), loop until harakiri (1 s), reject and overflow the stack, three times each. The "peer" is the
same daemon without them.`

export async function run({ pairs, scale, say }) {
  const count = Math.round(15_000 * scale)
  const figures = await inPairs(
    Math.min(pairs, 2),
    () => rate(count, KINDS),
    () => rate(count, []),
    (mine, theirs) =>
      say(`${Math.round(mine['good tasks per second'])} / ${Math.round(theirs['good tasks per second'])}`),
  )
  return { rows: figures.map(figure => ({ case: 'four processes', target: 0.9, ...figure })) }
}
