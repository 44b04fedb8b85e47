// Takes the pictures of `spoold top` in README.md and docs/top.md: a daemon, some tasks, and a tmux in which it is looked at. Needs
// tmux, and what `npm run build` makes: `node docs/top-pictures.mjs`.
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const BIN = fileURLToPath(new URL('../bin/spoold.js', import.meta.url))
const PAGES = ['../README.md', 'top.md'].map(page => fileURLToPath(new URL(page, import.meta.url)))
const PICTURE = /(<!-- picture (\d+)x(\d+): [^\n]* -->\n).*?(<!-- end of picture -->)/gs
const PATIENCE_MS = 60_000

const HANDLERS = `
import { Tasks } from 'spoold'
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
export const tasks = new Tasks({ maxRetries: 0 })
tasks.task('mail', async to => { if (to.endsWith('.invalid')) throw new Error('550 no such host: ' + to) })
tasks.task('invoice', async () => { throw new Error('the customer has no address') })
tasks.task('report', { maxConcurrency: 1, maxRetries: 3 }, () => sleep(3_600_000))
`

const directory = mkdtempSync(join(tmpdir(), 'spoold-pictures-'))
const socket = `spoold-pictures-${process.pid}`
const spool = join(directory, 'spool')
const tmux = (...args) =>
  execFileSync('tmux', ['-u', '-L', socket, '-f', '/dev/null', ...args], { encoding: 'utf8', stdio: 'pipe' })
const enqueue = (...pairs) =>
  execFileSync(process.execPath, [BIN, 'enqueue', '--quiet', '--spooler', spool, ...pairs])

/** Waits until the screen of tmux shows all of this. */
async function screenWith(...texts) {
  for (const giveUpAt = Date.now() + PATIENCE_MS; Date.now() < giveUpAt; await sleep(200)) {
    const screen = tmux('capture-pane', '-p')
    if (texts.every(text => screen.includes(text))) return screen
  }
  throw new Error(`${texts.join(', ')} never came; the screen is\n${tmux('capture-pane', '-p')}`)
}

async function picture(columns, rows) {
  const command = `cd ${directory} && NO_COLOR=1 exec ${process.execPath} ${BIN} top spool`
  tmux(
    'start-server',
    ';',
    'set',
    '-g',
    'status',
    'off',
    ';',
    'new-session',
    '-d',
    '-x',
    columns,
    '-y',
    rows,
    command,
  )
  try {
    await screenWith('1 running')
    tmux('send-keys', '5')
    await screenWith('550')
    tmux('send-keys', 'Space', 'Space', 'R')
    return await screenWith('requeue 2 tasks? y/N')
  } finally {
    tmux('kill-server')
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
