// `npm start`: puts three tasks into the spool, and runs the daemon on it until Ctrl-C.
import { execFileSync, spawn } from 'node:child_process'
import { dirname, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))
const spoold = fileURLToPath(new URL('../../bin/spoold.js', import.meta.url))
const spool = `${here}/spool`

const enqueue = (...words) =>
  execFileSync(process.execPath, [spoold, 'enqueue', '--spooler', spool, ...words], { stdio: 'inherit' })

enqueue('to=world')
enqueue('to=patience', 'flaky=yes')
enqueue('to=later', '--at', String(Math.ceil(Date.now() / 1000) + 5))

console.log(`
Three tasks wait: one runs at once, one needs a second attempt, one is due in 5 seconds.
More, from another terminal:

  npx spoold enqueue --spooler ${relative(process.cwd(), spool) || '.'} to=you

Ctrl-C ends it.
`)

const daemon = spawn(process.execPath, [spoold, `${here}/app.ini`], { stdio: 'inherit' })

// A terminal sends Ctrl-C to both processes, kill(1) only to this one. The daemon treats a repeated signal as one.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => daemon.kill(signal))
daemon.on('exit', code => process.exit(code ?? 1))
