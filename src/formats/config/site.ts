import { describe } from '../../base/errors.js'
import { COMMAND_LINE, ENVIRONMENT } from '../ini/read-config.js'
import { formatWhere, type Problems, type Setting } from '../ini/setting.js'
import { findOption } from './option-table.js'

/** Decides which settings belong to whom in an ini that spoold and uWSGI both read. */

/**
 * Options that mark the configuration of an instance that serves requests. Each name also stands for the names that begin with it
 * and a hyphen. `socket` is not among them, because it takes tasks, too.
 */
const SERVES = new RegExp(
  `^(?:${`
  module wsgi wsgi-file file eval pecan paste ini-paste ini-paste-logged web3 pump wsgi-lite mount pypy-wsgi pypy-paste
  pypy-ini-paste psgi rack rails cgi php lua jwsgi ring-load ring-app clojure-load mono go-load gccgo-load xslt webdav
  http http-socket http11-socket https https2 httprouter fastcgi-socket scgi-socket puwsgi-socket suwsgi-socket raw-socket
  fastrouter rawrouter sslrouter sslrouter2 static-map static-map2 check-static static-index subscribe-to subscribe2
  worker-exec worker-exec2 emperor vassal
`
    .trim()
    .split(/\s+/)
    .join('|')})(?:-.*)?$`,
)

/** Returns the first setting that shows that requests are served; undefined: none are. */
export function requestServing(settings: readonly Setting[]): Setting | undefined {
  return settings.find(({ key, isPlaceholder }) => isPlaceholder !== true && SERVES.test(key))
}

/** Options that name an application. */
const APPLICATION = names(`
  module wsgi wsgi-file file eval pecan paste ini-paste ini-paste-logged web3 pump wsgi-lite mount
  pypy-wsgi pypy-wsgi-file pypy-paste pypy-ini-paste psgi rack rails cgi php-app php-docroot lua jwsgi ring-load ring-app
  clojure-load mono-app go-load gccgo-load xslt-docroot webdav-mount worker-exec worker-exec2
`)
/** Options that name an address on which an application is served. */
const ADDRESS = names(`
  socket uwsgi-socket http httprouter http-socket http11-socket https https2 https-socket ssl-socket
  suwsgi-socket puwsgi-socket fastcgi-socket fastcgi-nph-socket scgi-socket scgi-nph-socket raw-socket zerg
`)
/** Options for things that a site has once, and that spoold would take from it. */
const SITES = ['socket', 'pidfile', 'safe-pidfile', 'logto', 'daemonize', 'stats', 'master-fifo', 'vacuum']
const ALL = 'all'
/** The option by which spoold takes them all the same. */
const TAKE = 'spooler-take'

function names(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/))
}

/**
 * Returns the settings that are left to uWSGI. An ini that names an application, and an address on which it is served, is that of
 * a site. What a site has once then belongs to its uWSGI, whichever of the two programs starts first. Otherwise spoold would take
 * the site's address and pidfile, obey its FIFO and write into its log. Settings on spoold's own command line, or in its
 * environment, are spoold's.
 */
export function leftToSite(settings: readonly Setting[], problems: Problems): ReadonlySet<Setting> {
  const inFiles = settings.filter(({ where, isPlaceholder }) => {
    const isOwn = where.file === COMMAND_LINE || where.file.startsWith(ENVIRONMENT)
    return isPlaceholder !== true && !isOwn
  })
  const taken = takenIn(settings, problems)
  const application = inFiles.find(({ key }) => APPLICATION.has(key))
  const address = inFiles.find(({ key }) => ADDRESS.has(key))
  if (application === undefined || address === undefined || taken.has(ALL)) return new Set()
  const nameOf = ({ key }: Setting) => findOption(key)?.name ?? ''
  const left = inFiles.filter(each => SITES.includes(nameOf(each)) && !taken.has(nameOf(each)))
  const [first] = left
  if (first !== undefined)
    problems.warning(
      first.where,
      `left to uWSGI, because ${named(application)} is served on ${named(address)}: ${left.map(named).join(', ')}; ` +
        `to have spoold take them: ${TAKE} = ${[...new Set(left.map(nameOf))].join(', ')} (or ${ALL})`,
    )
  return new Set(left)
}

function named({ key, where }: Setting): string {
  return `${key} (${formatWhere(where)})`
}

function takenIn(settings: readonly Setting[], problems: Problems): ReadonlySet<string> {
  const taken = new Set<string>()
  for (const { key, value, where, isPlaceholder } of settings) {
    if (key !== TAKE || isPlaceholder === true) continue
    for (const word of value.split(/[\s,]+/).filter(each => each !== '')) {
      const name = findOption(word)?.name ?? word
      if (name === ALL || SITES.includes(name)) taken.add(name)
      else problems.error(where, `${TAKE}: expected ${SITES.join(', ')}, or ${ALL}, got ${describe(word)}`)
    }
  }
  return taken
}
