// Memory use of an idle daemon.
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { childrenOf, inPairs, start, startSpoold, until, withDirectory } from './harness.mjs'

/** The time after which spoold and V8 have returned the memory that the start took. */
const V8_RESTS_AFTER_MS = 15_000

export const title = 'Memory of an idle daemon'
export const about = `Master and one worker with a JavaScript handler, ${V8_RESTS_AFTER_MS / 1000} s after the start, beside two idle \`node\`; PSS, which counts a
page that processes share once.`

export async function run({ pairs }) {
  const figures = await inPairs(Math.min(pairs, 2), idleSpoold, idleNodes)
  return { rows: figures.map(figure => ({ case: 'master and worker', target: '≤ 1.25', ...figure })) }
}

const idleSpoold = () =>
  withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    mkdirSync(spool)
    const daemon = startSpoold(directory, spool)
    try {
      await until('it runs', () => daemon.log().includes(' is running '))
      return { MB: await idlePss([daemon.pid, ...childrenOf(daemon.pid)]) }
    } finally {
      await daemon.stop()
    }
  })

const idleNodes = () =>
  withDirectory('memory', async directory => {
    const nodes = [1, 2].map(n =>
      start(process.execPath, ['-e', 'setInterval(() => {}, 1e8)'], join(directory, `log${n}`)),
    )
    try {
      return { MB: await idlePss(nodes.map(({ pid }) => pid)) }
    } finally {
      for (const each of nodes) await each.stop()
    }
  })

async function idlePss(pids) {
  await setTimeout(V8_RESTS_AFTER_MS)
  return pssOf(pids)
}

function pssOf(pids) {
  const sizes = pids.map(pid => /^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1])
  return sizes.reduce((sum, kilobytes) => sum + Number(kilobytes) / 1024, 0)
}
