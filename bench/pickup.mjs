// The latency from the rename that publishes a task to its handler, in an idle daemon.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { encodePacket } from '../build/src/formats/protocol/packet.js'
import { BIN, percentile, start, until, withDirectory } from './harness.mjs'

const FILES = 1000

export const title = 'Pick-up: from rename to handler'
export const about = `${FILES} files renamed one by one into an idle daemon's directory, a few milliseconds apart; milliseconds. (A uWSGI finds
such a file after half its spooler-frequency on average: 15 s by default.)`

export async function run({ scale }) {
  const rows = []
  for (const [name, options, p50, p99] of [
    ['directory on tmpfs', [], 5, 25],
    ['ordered', ['--spooler-ordered'], 5, 25],
  ]) {
    const latencies = await measure(Math.round(FILES * scale), options)
    rows.push({
      case: name,
      p50: percentile(latencies, 50),
      p99: percentile(latencies, 99),
      max: Math.max(...latencies),
      target: `p50 ≤ ${p50}, p99 ≤ ${p99}`,
    })
  }
  return { rows }
}

async function measure(count, options) {
  return withDirectory('memory', async directory => {
    const [spool, aside, journal] = ['spool', 'aside', 'journal'].map(name => join(directory, name))
    for (const path of [spool, aside]) mkdirSync(path)
    const handler = join(directory, 'handler.mjs')
    writeFileSync(
      handler,
      `import { openSync, writeSync } from 'node:fs'
      const fd = openSync(${JSON.stringify(journal)}, 'a')
      export default (env, task) => { writeSync(fd, env.n + ' ' + process.hrtime.bigint() + '\\n'); return task.SPOOL_OK }`,
    )
    const args = [BIN, '--spooler', spool, '--spooler-import', handler, '--spooler-quiet', ...options]
    const daemon = start(process.execPath, args, join(directory, 'log'))
    try {
      await until('it runs', () => daemon.log().includes('is running'))
      const renamedAt = []
      for (let n = 0; n < count; n++) {
        writeFileSync(join(aside, 't'), encodePacket([[Buffer.from('n'), Buffer.from(String(n))]]))
        renamedAt.push(process.hrtime.bigint())
        renameSync(join(aside, 't'), join(spool, `t${n}`))
        await setTimeout(3)
      }
      const lines = () => readFileSync(journal, 'utf8').trim().split('\n')
      await until('all have run', () => lines().length >= count)
      return lines().map(line => {
        const [n, at] = line.split(' ')
        return Number(BigInt(at) - renamedAt[Number(n)]) / 1e6
      })
    } finally {
      await daemon.stop()
    }
  })
}
