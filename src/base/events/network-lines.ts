import type { LineLog } from '../log/log.js'
import { printable } from '../printable.js'
import type { Listeners } from './event-map.js'

/** Peers must not be able to fill the disk with our log. */
const COMPLAINTS = 20
const PERIOD_MS = 10_000
const COMPLAINT_LENGTH = 400

/** The lines about sockets and peers (core/socket.c, core/spooler.c). */
export function networkLines(log: LineLog, isQuiet: (path: string) => boolean) {
  const complain = createComplainer(log)
  return {
    'socket-opened': ({ number, how, family, address, isAutoPort }) => {
      const port = isAutoPort ? ' (port auto-assigned)' : ''
      const verb = how === 'bound' ? 'bound to' : 'inherited'
      log.line('info', `uwsgi socket ${number} ${verb} ${family} address ${printable(address)}${port}`, {
        address,
      })
    },
    'socket-removed': ({ file }) => log.line('info', `VACUUM: unix socket ${file} removed.`),
    'socket-left': ({ file, error }) =>
      log.line('warn', `VACUUM: unix socket ${file} cannot be removed: ${error}`, { file }),
    'control-unavailable': ({ place, error }) =>
      log.line('warn', `[spooler ${printable(place)}] no control socket: ${error}`, { place }),
    'fifo-ignored': ({ path, why }) =>
      log.line('warn', `[spooler] master fifo ${printable(path)}: ignored: ${printable(why)}`, { path }),
    'fifo-unavailable': ({ path, why }) =>
      log.line(
        'warn',
        `[spooler] master fifo ${printable(path)}: cannot be opened again: ${printable(why)}`,
        {
          path,
        },
      ),
    'request-stored': ({ path, bytes }) => {
      if (!isQuiet(path))
        log.line('info', `[spooler] written ${bytes} bytes to file ${printable(path)}`, { path })
    },
    'request-refused': ({ peer, error }) => complain(`[uwsgi-spooler] ${error} (from ${peer})`, peer),
    'exporter-listening': ({ what, address }) => log.line('info', listeningLine(what, address), { address }),
    'exporter-alarm': ({ message }) => log.line('warn', `[spooler exporter] ${printable(message)}`),
    'exporter-trouble': ({ message }) => log.line('warn', `[spooler exporter] ${printable(message)}`),
    'dashboard-listening': ({ address }) =>
      log.line('info', listeningLine('dashboard', address), { address }),
    'dashboard-trouble': ({ message }) => log.line('warn', `[spooler dashboard] ${printable(message)}`),
    'modifier-unavailable': ({ peer, modifier1 }) =>
      complain(`-- unavailable modifier requested: ${modifier1} -- (from ${peer})`, peer),
    'peer-turned-away': ({ peer, because }) => complain(`${peer} was turned away: ${because}`, peer),
  } satisfies Partial<Listeners>
}

/** uWSGI also prints the descriptor, which in another process means nothing (core/master.c). */
function listeningLine(what: string, address: string): string {
  const name = printable(address)
  return `*** ${what === 'stats' ? 'Stats server' : what} enabled on ${name} ***`
}

/** Limits the lines per period; the first line after it says how many were suppressed. */
function createComplainer(log: LineLog): (text: string, peer: string) => void {
  let periodEndsMs = 0
  let count = 0
  return (text, peer) => {
    const nowMs = performance.now()
    if (nowMs >= periodEndsMs) {
      if (count > COMPLAINTS)
        log.line('warn', `${count - COMPLAINTS} more refused requests or peers were not logged`)
      periodEndsMs = nowMs + PERIOD_MS
      count = 0
    }
    if (++count <= COMPLAINTS) log.line('warn', printable(text.slice(0, COMPLAINT_LENGTH)), { peer })
  }
}
