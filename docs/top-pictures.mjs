// Takes the pictures of `spoold top` in README.md and docs/top.md: a daemon, some tasks, and a tmux in which it is looked at. Needs
// tmux, and what `npm run build` makes: `node docs/top-pictures.mjs`. What drives tmux is the tests' own.
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
execFileSync(process.execPath, [
  join(ROOT, 'node_modules/typescript/bin/tsc'),
  '-p',
  join(ROOT, 'test'),
  '--incremental',
  'false',
])
const { Pane } = await import('../build/test/helpers/pane.js')

const BIN = join(ROOT, 'bin/spoold.js')
const PAGES = ['../README.md', 'top.md'].map(page => fileURLToPath(new URL(page, import.meta.url)))
const PICTURE = /(<!-- picture (\d+)x(\d+): [^\n]* -->\n).*?(<!-- end of picture -->)/gs

const HANDLERS = `
import { Tasks } from 'spoold'
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
export const tasks = new Tasks({ maxRetries: 0 })
tasks.task('mail', async to => { if (to.endsWith('.invalid')) throw new Error('550 no such host: ' + to) })
tasks.task('invoice', async () => { throw new Error('the customer has no address') })
tasks.task('report', { maxConcurrency: 1, maxRetries: 3 }, () => sleep(3_600_000))
`

const directory = mkdtempSync(join(tmpdir(), 'spoold-pictures-'))
const spool = join(directory, 'spool')
const enqueue = (...pairs) =>
  execFileSync(process.execPath, [BIN, 'enqueue', '--quiet', '--spooler', spool, ...pairs])

async function picture(columns, rows) {
  const command = `cd ${directory} && NO_COLOR=1 exec ${process.execPath} ${BIN} top spool`
  const pane = new Pane(columns, rows, command)
  try {
    await pane.waitFor(/1 running/)
    pane.type('5')
    await pane.waitFor(/550/)
    pane.type('Space', 'Space', 'R')
    return await pane.waitFor(/requeue 2 tasks\? y\/N/)
  } finally {
    pane.close()
  }
}

writeFileSync(join(directory, 'tasks.mjs'), HANDLERS)
writeFileSync(
  join(directory, 'app.ini'),
  `[uwsgi]\nspooler = ${spool}\nspooler-import = ${join(directory, 'tasks.mjs')}\nspooler-concurrency = 4\n`,
)
const daemon = spawn(process.execPath, [BIN, join(directory, 'app.ini')], { stdio: 'ignore' })
try {
  enqueue('task=report', 'args=[]')
  for (const name of ['jane', 'joe']) enqueue('task=mail', `args=["${name}@mail.invalid"]`)
  enqueue('task=invoice', 'args=[1204]')
  for (const day of [1, 2, 3]) enqueue('--at', `+${day}d`, 'task=report', 'args=[]')
  for (const page of PAGES) {
    let text = readFileSync(page, 'utf8')
    for (const [all, head, columns, rows, end] of [...text.matchAll(PICTURE)]) {
      const lines = (await picture(columns, rows)).split('\n').map(line => line.trimEnd())
      text = text.replace(all, () => `${head}\n\`\`\`text\n${lines.join('\n').trimEnd()}\n\`\`\`\n\n${end}`)
    }
    writeFileSync(page, text)
  }
} finally {
  daemon.kill('SIGKILL')
  await new Promise(resolve => daemon.once('exit', resolve))
  rmSync(directory, { recursive: true, force: true })
}
