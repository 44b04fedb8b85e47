import type { Setting } from '../ini/setting.js'

/**
 * What makes a configuration one of an instance that serves requests. Each name also stands for the names that begin
 * with it and a hyphen. `socket` is not among them: it takes tasks, too.
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

/** The first setting that shows that requests are served; undefined: none are. */
export function requestServing(settings: readonly Setting[]): Setting | undefined {
  return settings.find(({ key, isPlaceholder }) => isPlaceholder !== true && SERVES.test(key))
}
