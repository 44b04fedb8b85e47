/**
 * The names of the other options of uWSGI 2.0 and 2.1, core and plugins. They are accepted without an effect, because an existing
 * uWSGI ini file should work with spoold; `effectOf` says what is missed. Sources: `uwsgi --help`, and the option tables in
 * uWSGI's source.
 */

/** Options that take a value on the command line. */
const WITH_VALUE = `
add-cache-item add-header after-request-call after-request-hook alarm alarm-backlog alarm-cheap alarm-fd
alarm-freq alarm-listen-queue alarm-log alarm-lq alarm-metric alarm-msg-size alarm-segfault allowed-modifiers
async asyncio attach-control-daemon attach-daemon attach-daemon2 auto-weight backlog-alarm backtrace-depth
binary-append-data binary-path binsh blacklist body-read-warning brutal-reload-on-fd build-plugin
cache cache-blocksize cache-expire-freq cache-store cache-store-sync cache-sync cache-udp-node cache-udp-server
cache2 call-as-emperor call-as-emperor1 call-as-emperor2 call-as-emperor4 call-as-root call-as-user
call-as-user-atexit call-as-vassal call-as-vassal1 call-as-vassal3 call-asap call-in-jail call-post-app
call-post-jail call-pre-app call-pre-jail cap carbon carbon-freq carbon-hostname-dots carbon-id
carbon-idle-avg carbon-max-retry carbon-retry-delay carbon-root carbon-timeout cgi cgi-allowed-ext
cgi-buffer-size cgi-helper cgi-index cgi-loadlib cgi-map-helper cgi-safe cgi-timeout cgi-unset cgroup
cgroup-dir-mode cgroup-opt chdir2
check-mount check-mountpoint check-static chroot chunked-input-limit chunked-input-timeout clock
clojure-load collect-header config connect-and-read coroae cpu-affinity cron-curl cron-curl-legion
cron-legion curl-cron curl-cron-legion declare-option declare-option2 del-header dlopen
dumbloop-code dumbloop-function dumbloop-modifier1 early-envdir early-perl early-perl-exec early-php-sapi-name
early-psgi early-pyimport early-python-import early-python-path early-pythonpath emperor emperor-broodlord
emperor-cap emperor-chdir-attr emperor-collect-attr emperor-collect-attribute emperor-command-socket
emperor-curse-tolerance emperor-extra-ext emperor-extra-extension emperor-fork-server-attr emperor-freq
emperor-max-throttle emperor-on-demand-dir emperor-on-demand-directory emperor-on-demand-exec
emperor-on-demand-ext emperor-on-demand-extension emperor-pidfile emperor-procname emperor-proxy-socket
emperor-required-heartbeat emperor-stats emperor-stats-server emperor-throttle emperor-trigger-socket
emperor-use-clone emperor-use-fork-server emperor-wait-for-command-ignore emperor-wrapper emperor-wrapper-attr
emperor-wrapper-fallback emperor-wrapper-override envdir error-page-403 error-page-404 error-page-500
error-route error-route-host error-route-if error-route-if-not error-route-label error-route-qs
error-route-referer error-route-remote-addr error-route-remote-user error-route-run error-route-status
error-route-uri error-route-user-agent exception-handler
exec-as-emperor exec-as-root exec-as-user exec-as-user-atexit exec-as-vassal exec-asap exec-in-jail
exec-post-app exec-post-jail exec-pre-app exec-pre-jail extract fallback-config farm fastcgi-modifier1
fastcgi-modifier2 fastcgi-nph-socket fastcgi-socket fastrouter fastrouter-buffer-size
fastrouter-defer-connect-timeout fastrouter-emperor-socket fastrouter-events fastrouter-fallback
fastrouter-force-key fastrouter-gid fastrouter-gracetime fastrouter-harakiri fastrouter-max-retries
fastrouter-post-buffering fastrouter-post-buffering-dir fastrouter-processes fastrouter-quiet
fastrouter-resubscribe fastrouter-resubscribe-bind fastrouter-ss fastrouter-stats fastrouter-stats-server
fastrouter-subscription-fallback-key fastrouter-subscription-server fastrouter-subscription-slot
fastrouter-timeout fastrouter-to fastrouter-uid fastrouter-use-base fastrouter-use-code-string
fastrouter-use-pattern fastrouter-workers fastrouter-zerg fd-safe file-serve-mode file-write fileserve-mode
final-route final-route-host final-route-if final-route-if-not final-route-label final-route-qs
final-route-referer final-route-remote-addr final-route-remote-user final-route-run final-route-status
final-route-uri final-route-user-agent flock flock-wait flock-wait2 flock2 force-cwd fork-server fork-socket
forkbomb-delay forkpty-router forkpty-router-cmd forkpty-router-command forkpty-urouter forkptyrouter
forkptyrouter-cmd forkptyrouter-cols forkptyrouter-command forkptyrouter-events forkptyrouter-fallback
forkptyrouter-harakiri forkptyrouter-processes forkptyrouter-rows forkptyrouter-ss forkptyrouter-stats
forkptyrouter-stats-server forkptyrouter-timeout forkptyrouter-workers forkptyrouter-zerg forkptyurouter
fs-brutal-reload fs-reload ftok gccgo-args gccgo-load gemset geoip-city geoip-country get gevent
glusterfs-mount glusterfs-timeout go-args go-load goroutines harakiri harakiri-graceful-signal
harakiri-graceful-timeout harakiri-queue-threshold heartbeat hook-accepting hook-accepting-once
hook-accepting1 hook-accepting1-once hook-as-emperor hook-as-emperor-before-vassal hook-as-emperor-setns
hook-as-gateway hook-as-mule hook-as-on-config-vassal hook-as-on-demand-vassal hook-as-root hook-as-user
hook-as-user-atexit hook-as-vassal hook-as-vassal-before-drop hook-asap hook-emperor-lost hook-emperor-reload
hook-emperor-start hook-emperor-stop hook-in-jail hook-master-start hook-post-app hook-post-fork hook-post-jail
hook-pre-app hook-pre-jail hook-touch http http-buffer-size http-connect-timeout http-events http-fallback
http-gid http-gracetime http-harakiri http-headers-timeout http-modifier1 http-modifier2
http-path-info-no-decode-slashes http-post-buffering http-post-buffering-dir http-processes http-quiet
http-resubscribe http-server-name-as-http-host http-socket http-socket-modifier1 http-socket-modifier2 http-ss
http-stats http-stats-server http-stud-prefix http-subscription-fallback-key http-subscription-server
http-timeout http-to http-to-https http-uid http-use-base http-use-code-string http-use-pattern http-var
http-workers http-zerg http11-socket httprouter https https-session-context https-socket https-socket-modifier1
https-socket-modifier2 https2 ienv immediate-gid immediate-uid
inject-after inject-before iprint jail jail-attach jail-ip4 jail-ip6 jail2 jid-file jidfile js json jvm-class
jvm-classpath jvm-main-class jvm-opt jwsgi ldap legion legion-attach-daemon legion-cron legion-cron-curl
legion-curl-cron legion-death legion-death-on-lord-error legion-freq legion-join legion-lord legion-mcast
legion-node legion-node-joined legion-node-left legion-quorum legion-scroll legion-scroll-list-max-size
legion-scroll-max-size legion-setup legion-skew-tolerance legion-smart-attach-daemon legion-smart-attach-daemon2
legion-tolerance legion-unlord libjail limit-as limit-nproc limit-post listen-queue-alarm
load-file-in-cache load-file-in-cache-gzip lock-engine locks log-alarm log-backupname log-big log-drain
log-encoder log-filter log-ioerror log-master-bufsize log-maxsize log-req-encoder log-req-route log-route
log-sendfile log-slow log-socket log-zeromq logfile-chmod logformat logger logger-req loop lq-alarm lua
lua-gc-freq lua-load lua-postfork-mule lua-postfork-spooler lua-postfork-worker lua-postload map-socket
max-apps max-fd max-requests max-requests-delta max-vars
mem-collector-freq metric metric-alarm metric-dir metric-threshold metrics-dir
mime-file mimefile mode mongrel2 mono-app mono-assembly mono-config mono-exec
mono-gc-freq mono-index mono-key mono-version mount-as-emperor mount-as-root mount-as-vassal mount-asap
mount-check mount-in-jail mount-post-jail mount-pre-jail mountpoint-check mule-harakiri mule-msg-recv-size
mule-reload-mercy mules multicast multicast-loop multicast-ttl namespace namespace-keep-mount namespace-net
need-plugin need-plugins not-alarm-log not-log-alarm notify-socket ns ns-net offload-thread offload-threads
optimize pam pam-user paste-name pause perl-arg perl-args perl-auto-reload perl-auto-reload-ignore
perl-local-lib php-allowed-docroot php-allowed-ext php-allowed-script php-app
php-app-bypass php-app-qs php-config php-config-append php-constant php-docroot php-exec-after php-exec-before
php-exec-begin php-exec-end php-fallback php-fallback-qs php-fallback2 php-index php-ini php-ini-append
php-mount php-sapi-name php-server-software php-set php-var ping ping-timeout pivot pivot-root pivot_root plugin
plugin-dir plugins plugins-dir post-buffering post-buffering-bufsize post-pymodule-alias print print-sym
print-symbol prio privileged-binary-patch privileged-binary-patch-arg processes profiler protocol
pty-connect pty-exec pty-socket pty-uconnect pull-header puwsgi-socket py py-auto-reload
py-auto-reload-ignore py-autoreload py-executable py-program-name py-programname py-sharedarea
py-sys-executable py-tracebacker pymodule-alias pypy-eval pypy-eval-post-fork pypy-exec
pypy-exec-post-fork pypy-home pypy-ini-paste pypy-lib pypy-paste pypy-pp pypy-python-path pypy-pythonpath
pypy-setup pypy-wsgi pypy-wsgi-file pyrun python-auto-reload python-autoreload
python-raw python-worker-override queue queue-blocksize queue-store queue-store-sync rados-mount
rados-timeout raw-modifier1 raw-modifier2 raw-socket rawrouter rawrouter-buffer-size rawrouter-events
rawrouter-fallback rawrouter-gracetime rawrouter-harakiri rawrouter-max-retries rawrouter-processes
rawrouter-quiet rawrouter-ss rawrouter-stats rawrouter-stats-server rawrouter-subscription-server
rawrouter-subscription-slot rawrouter-timeout rawrouter-to rawrouter-use-base rawrouter-use-code-string
rawrouter-use-pattern rawrouter-workers rawrouter-zerg rb-gc-freq reload
reload-mercy reload-on-exception-repr reload-on-exception-type reload-on-exception-value
reload-on-fd reload-on-pss reload-on-uss rem-header remap-modifier req-logger resolve
response-header-collect response-headers-limit response-route response-route-host response-route-if
response-route-if-not response-route-label response-route-qs response-route-referer response-route-remote-addr
response-route-remote-user response-route-run response-route-status response-route-uri response-route-user-agent
resume ring-app ring-load route route-host route-if route-if-not route-label route-qs route-referer
route-remote-addr route-remote-user route-run route-uri route-user-agent rpc-max rrdtool rrdtool-freq
rrdtool-lib rsyslog-packet-size ruby-gc-freq rvm rvm-path safe-fd
scgi-modifier1 scgi-modifier2 scgi-nph-socket scgi-socket segfault-alarm setns setns-skip setns-socket
setns-socket-skip
shared-socket signal
signal-bufsize signals-bufsize smart-attach-daemon smart-attach-daemon2 sni sni-dir
sni-dir-ciphers sni-regexp snmp-community socket-protocol socket-rcvbuf socket-sndbuf
sqlite sqlite3 ssl-session-timeout
ssl-sessions-timeout ssl-socket ssl-tmp-dir sslrouter sslrouter-buffer-size sslrouter-events sslrouter-fallback
sslrouter-gracetime sslrouter-harakiri sslrouter-max-retries sslrouter-processes sslrouter-quiet
sslrouter-session-context sslrouter-ss sslrouter-stats sslrouter-stats-server sslrouter-subscription-server
sslrouter-timeout sslrouter-to sslrouter-use-base sslrouter-use-code-string sslrouter-use-pattern
sslrouter-workers sslrouter-zerg sslrouter2 st static-cache-paths static-cache-paths-name static-check
static-expires static-expires-mtime static-expires-path-info static-expires-path-info-mtime static-expires-type
static-expires-type-mtime static-expires-uri static-expires-uri-mtime static-gzip static-gzip-dir
static-gzip-ext static-gzip-prefix static-gzip-suffix static-index static-map static-map2 static-safe
static-skip-ext stats stats-push stats-pusher-default-freq stats-pushers-default-freq stats-server stop
subscribe subscribe-freq subscribe-to subscribe-with-modifier1 subscribe2 subscription-algo
subscription-mountpoint subscription-mountpoints subscription-notify-socket subscription-tolerance
subscription-tolerance-inactive subscriptions-credentials-check subscriptions-sign-check
subscriptions-sign-check-tolerance subscriptions-sign-skip-uid suspend suwsgi-socket symcall symcall-post-fork
symcall-register-rpc tcp-fast-open tcp-fastopen test thread-stack-size thread-stacksize threads
threads-stack-size threads-stacksize tornado touch-chain-reload touch-exec touch-logreopen touch-logrotate
touch-mules-reload touch-workers-reload tuntap-device tuntap-device-rule tuntap-router
tuntap-router-firewall-in tuntap-router-firewall-out tuntap-router-route tuntap-router-stats udp
ugreen-stacksize umount-as-emperor umount-as-root umount-as-vassal umount-asap umount-in-jail umount-post-jail
umount-pre-jail undeferred-shared-socket unique-cron-legion unique-legion-cron
unprivileged-binary-patch unprivileged-binary-patch-arg unshare unshare2 upload-progress vassal-cap
vassal-fork-base vassal-set vassal-sos vassal-sos-backlog vassals-cap vassals-include vassals-include-before
vassals-inherit vassals-inherit-before vassals-set vassals-start-hook vassals-stop-hook
wait-for-dir wait-for-file wait-for-fs wait-for-fs-timeout wait-for-iface wait-for-iface-timeout
wait-for-interface wait-for-interface-timeout wait-for-mountpoint wait-for-socket wait-for-socket-timeout
wait-iface wait-iface-timeout wait-interface wait-interface-timeout webdav-add-collection-prop
webdav-add-collection-prop-comp webdav-add-collection-prop-href webdav-add-object-prop
webdav-add-object-prop-comp webdav-add-object-prop-href webdav-add-option webdav-add-prop webdav-add-prop-comp
webdav-add-prop-href webdav-add-rtype-collection-prop webdav-add-rtype-object-prop webdav-add-rtype-prop
webdav-class-directory webdav-css webdav-div webdav-javascript webdav-js webdav-lock-cache webdav-mount
webdav-principal-base webdav-skip-prop websocket-max-size websocket-ping-freq websocket-pong-tolerance
websockets-max-size websockets-ping-freq websockets-pong-tolerance weight whitelist worker-exec worker-exec2
worker-log-encoder worker-log-req-encoder worker-logger worker-logger-req worker-mount workers
write-errors-tolerance wsgi-env-behavior wsgi-env-behaviour xml xmlconfig
xslt-content-type xslt-docroot xslt-ext xslt-stylesheet xslt-var yaml yml zerg zerg-pool zerg-server zergpool
zeromq zeromq-socket zeus zmq zmq-socket
`

/** Options with an optional value: `--ksm`, `--ksm=10`. */
const OPTIONAL = `
check-cache exit fastrouter-use-cache fastrouter-use-socket http-enable-proxy-protocol
http-keepalive http-manage-expect http-use-cache http-use-socket ksm log-syslog mule mule-msg-size
plshell pyshell pyshell-oneshot rawrouter-use-cache rawrouter-use-socket rbshell snmp
ssl-session-use-cache ssl-sessions-use-cache ssl-verify-depth sslrouter-use-cache sslrouter-use-socket
tuntap-use-credentials zabbix-template
`

/** Options without a value. */
const FLAGS = `
abstract-socket alarm-list alarms-list autoload cache-no-expire cache-report-freed-items cache-use-last-modified
carbon-name-resolve carbon-no-workers carbon-resolve-names carbon-use-metrics catch-exceptions cflags
cgi-async-max-attempts cgi-close-stdin-on-eof cgi-do-not-kill-on-error cgi-dontresolve cgi-from-docroot cgi-mode
cgi-optimize cgi-optimized cgi-path-info
check-static-docroot clock-list clocks-list close-on-exec close-on-exec2 command-mode config-py
daemons-honour-stdin die-on-no-workers disable-async-warn-on-queue-full disable-logging
disable-sendfile disable-write-exception dot-h drop-after-apps drop-after-init dump-options dynamic-apps
early-emperor early-php early-python emperor-graceful-shutdown emperor-magic-exec emperor-no-blacklist
emperor-nofollow emperor-subreaper emperor-tyrant emperor-tyrant-initgroups emperor-tyrant-nofollow
emperor-wait-for-command enable-metrics enable-proxy-protocol enable-threads end-blacklist end-whitelist
exit-on-reload fastrouter-cheap fastrouter-fallback-on-no-key fiber force-gateway forkptyrouter-cheap freebind
geoip-use-disk gevent-early-monkey-patch gevent-monkey-patch gevent-wait-for-hub greenlet harakiri-no-arh
harakiri-verbose help honour-range honour-stdin http-auto-chunked http-auto-gzip http-backend-http http-cheap
http-chunked-input http-manage-rtsp http-manage-source http-raw-body http-websockets https-export-cert
ignore-script-name ignore-sigpipe ignore-write-errors imperial-monitor-list imperial-monitors-list jailed
ldap-schema ldap-schema-ldif log-4xx log-5xx log-format-strftime log-master log-master-req-stream
log-master-stream log-micros log-reopen log-truncate log-x-forwarded-for log-zero logfile-chown
logformat-strftime logger-list loggers-list loop-list loops-list lua-gc-full lua-shell lua-shell-oneshot
luashell luashell-oneshot manage-script-name metric-dir-restore metrics-dir-restore metrics-no-cores nagios
never-swap no-default-app no-defer-accept no-fd-passing no-harakiri-after-req-hook no-harakiri-arh no-initgroups
no-orphans no-server no-site no-threads-wait notfound-log pcre-jit perl-no-die-catch perl-no-plack
perl-version persistent-ipcsem php-dump-config plshell-oneshot plugin-list plugins-list propagate-touch
psgi-enable-psgix-io pty-input pty-log pty-no-isig py-call-osafterfork py-call-uwsgi-fork-hooks
py-master-check-signals python-version rawrouter-cheap rawrouter-xclient rb-thread rb-threads rbshell-oneshot
rbthread rbthreads re-fork re-fork-as-root re-fork-post-jail reaper refork refork-as-root refork-post-jail
reload-on-exception reload-os-env reuse-port router-list routers-list rsyslog-split-messages setns-preopen
show-config shutdown-sockets single-interpreter skip-atexit skip-atexit-teardown skip-zero so-keepalive
so-send-timeout so-write-timeout socket-send-timeout socket-write-timeout
ssl-enable-sslv3 ssl-enable-tlsv1 ssl-enable3 ssl-option ssl-verbose sslrouter-cheap sslrouter-sni stackless
start-unsubscribed start_response-nodelay static-gzip-all stats-http stats-min stats-minified stats-no-cores
stats-no-metrics statsd-all-gauges statsd-no-workers subscription-clear-on-shutdown subscription-dotsplit
subscription-vassal-required subscriptions-use-credentials symcall-use-next tcp-fast-open-client
tcp-fastopen-client tcp-nodelay threaded-logger thunder-lock thunder-lock-watchdog ugreen
unsubscribe-on-graceful-reload usage use-abort version vhost vhost-host write-errors-exception-only
wsgi-accept-buffer wsgi-accept-buffers wsgi-disable-file-wrapper wsgi-manage-chunked-input wsgi-strict
zerg-fallback
`

export type Arity = 'value' | 'optional' | 'flag'

const ARITIES: ReadonlyMap<string, Arity> = new Map([
  ...names(WITH_VALUE, 'value'),
  ...names(OPTIONAL, 'optional'),
  ...names(FLAGS, 'flag'),
])

/** Returns whether the option takes a value on uWSGI's command line; undefined if uWSGI does not know it either. */
export function uwsgiArity(name: string): Arity | undefined {
  return ARITIES.get(name)
}

export function uwsgiNames(): Iterable<string> {
  return ARITIES.keys()
}

/** What uWSGI does for an option that is accepted here without an effect. */
interface Effect {
  /** True if somebody may miss the effect: it has nothing to do with requests, and nothing here takes its place. */
  readonly isMissed: boolean
  readonly what: string
}

/** What is missed, by the name of the option. The first pattern that matches counts. */
const MISSED: ReadonlyArray<readonly [what: string, pattern: RegExp]> = [
  ['members of a legion, and what runs on its lord', /legion/],
  ['an emperor and its vassals', /emperor|vassal|^imperial/],
  ['mules and farms', /mule|^farm/],
  ['programs beside it', /attach-(control-)?daemon|^daemons-|^worker-exec|^fork-s|^touch-exec/],
  ['alarms (spooler-alarm has some)', /alarm/],
  [
    'metrics of its own (spooler-metrics has some)',
    /^metrics?(-|$)|rrdtool|^snmp|^zabbix|^nagios|^(enable|carbon-use)-metrics/,
  ],
  [
    'hooks, and code of C',
    /^hook-|^(exec|call|u?mount)-(as|in|post|pre)|^symcall|^dlopen|^binary-|^worker-mount|^after-request|^exception-handler|privileged-binary|glusterfs-mount|rados-mount/,
  ],
  [
    'code in languages that spoold does not load',
    /^(dumbloop-.*|pyrun|lua-load|lua-post.*|clojure-load|(gcc)?go-load|ring-load|mono-(exec|app|assembly)|jwsgi|jvm-(class|main-class)|pypy-(eval|exec|setup|wsgi|paste|ini-paste).*)$/,
  ],
  ['what is loaded or set early', /^early-/],
  ['environment variables from a directory, or of the ini alone', /^envdir|^ienv/],
  [
    'the confinement, limits and priority of processes',
    /^(chroot|cap|cgroup.*|namespace.*|ns|ns-net|unshare2?|jail.*|jid.*|libjail|pivot.*|setns.*|limit-(as|nproc)|immediate-.*|prio|cpu-affinity|no-initgroups|drop-after-.*|never-swap|max-fd|ksm|pam.*)$/,
  ],
  ['a working directory of its own', /^(chdir2|force-cwd)$/],
  ['crons that fetch a page', /curl/],
  [
    'reloads of other causes (touch-reload has some)',
    /^(fs-|brutal-|reload-on-(fd|pss|uss)|exit-on-reload|touch-(chain|workers)|(py|python|perl)-auto-?reload)/,
  ],
  ['waiting before the start', /^wait-/],
  [
    'logs in other places, rotated or rewritten',
    /^(logger|log-(backupname|drain|encoder|filter|maxsize|route|socket|syslog|zeromq|truncate|reopen)|logfile-ch.*|rsyslog-.*|touch-log.*|worker-(logger|log-encoder))$/,
  ],
  [
    'what a cache or a queue begins with, keeps or shares',
    /^(add-cache-item|load-file-in-cache.*|cache-(store|sync|udp).*|queue.*)$/,
  ],
  ['locks that instances share', /^(flock|ftok)/],
  [
    'the interpreter as it is set up for loaded code',
    /^(gevent-(early-)?monkey-patch|py(-|)(module-alias|thonpath.*|executable|program-?name|sys-executable|sharedarea|tracebacker)|post-pymodule-alias|perl-(arg.*|local-lib)|rvm.*|gemset|python-(raw|worker-override)|py-call-.*|perl-no-die-catch)$/,
  ],
  [
    'configuration from another place',
    /^(fallback-config|config|config-py|ldap.*|sqlite3?|zeus|declare-option2?)$/,
  ],
  ['profiles', /^profiler$/],
]

const HARMLESS: ReadonlyArray<readonly [why: string, pattern: RegExp]> = [
  [
    'a daemon has no such command',
    /^((alarms?|clocks?|loggers?|loops?|routers?|plugins?|imperial-monitors?)-list|help|usage|version|.*-version|cflags|dot-h|dump-options|show-config|print.*|iprint|exit|test|stop|reload|pause|resume|suspend|signal|build-plugin|extract|get|connect-and-read|command-mode|binsh|.*shell(-oneshot)?|plshell|heartbeat)$/,
  ],
  ['there are no plugins', /plugin|^autoload$/],
  ['it reads ini files only', /^(xml|xmlconfig|yaml|yml|js|json)$/],
  ['caches need no configuration', /^cache|^check-cache/],
  ['the log is its own, and has no requests', /^log|logger|^disable-logging|^notfound-log/],
  [
    'its processes have locks, sizes and threads of their own',
    /^(enable-threads|thunder-lock.*|locks?|lock-engine|threads?.*|no-threads-wait|single-interpreter|.*stack-?size|reaper|re-?fork.*|persistent-ipcsem|reload-.*|die-on-no-workers|no-orphans|close-on-exec2?|safe-fd|fd-safe|skip-.*|use-abort|optimize|ignore-sigpipe|honour-stdin|clock|forkbomb-delay|signals?-bufsize|backtrace-depth|.*-gc-(freq|full)|mode|processes|workers|py|py-master-.*|rb-?threads?|carbon-.*|.*metrics.*|max-apps|rpc-max|propagate-touch|notify-socket|ping.*|mem-collector-freq|stats-.*)$/,
  ],
]

const NO_REQUESTS = 'it serves no requests'

/** @param name a name that `uwsgiArity` knows */
export function effectOf(name: string): Effect {
  const missed = MISSED.find(([, pattern]) => pattern.test(name))
  if (missed !== undefined) return { isMissed: true, what: missed[0] }
  const harmless = HARMLESS.find(([, pattern]) => pattern.test(name))
  return { isMissed: false, what: harmless?.[0] ?? NO_REQUESTS }
}

function names(list: string, arity: Arity): Array<[string, Arity]> {
  return list
    .trim()
    .split(/\s+/)
    .map(name => [name, arity])
}

// biome-ignore format: as dense as the lists above
/** The short letters of ignored options, with their long names. */
export const UWSGI_LETTERS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    p: 'processes', t: 'harakiri', x: 'xml', v: 'max-vars',
    m: 'memory-report', c: 'cgi-mode', a: 'abstract-socket', T: 'enable-threads',
    i: 'single-interpreter', r: 'reaper', R: 'max-requests',
    L: 'disable-logging', y: 'yaml', j: 'json', J: 'test', O: 'optimize',
  }),
)
