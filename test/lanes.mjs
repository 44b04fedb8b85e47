// Which test files run together, and which of them begin first. Each entry is the beginning of a path below test/.

/**
 * `npm test`: what needs no daemon, and then the built daemon, once for each promise and each row of README
 * (docs/development.md says which file is for what). A new file is in it when its room is; else it is left to `npm run
 * test:all`.
 */
const SHORT = [
  'architecture',
  'base/',
  'client/',
  'config/',
  'control/protocol',
  'daemon/',
  'dashboard/readable-spools',
  'docs/',
  'doctor/',
  'embed/events',
  'embed/in-process',
  'engines/conformance',
  'engines/directory',
  'events/',
  'files/',
  'fsck/',
  'ini/fixtures',
  'ini/lines',
  'ipc/',
  'log/',
  'operate/',
  'protocol/',
  'schedule/commands',
  'schedule/ini-schedules',
  'schedule/leadership',
  'schedule/scheduler',
  'schedule/ticks',
  'spool/',
  'stats/',
  'supervisor/',
  'system/',
  'tasks/importing',
  'tasks/middleware',
  'tasks/scheduling',
  'testing/',
  'worker/',

  'cli/config',
  'cli/enqueue.',
  'cli/in-process',
  'cli/json-tasks',
  'cli/hold-and-kick',
  'cli/logs.',
  'cli/ls',
  'cli/output.',
  'cli/show',
  'cli/wait.',
  'e2e/bad-input',
  'e2e/drain',
  'e2e/drop',
  'e2e/failures',
  'e2e/golden',
  'e2e/handlers',
  'e2e/life.',
  'e2e/log-lines',
  'e2e/order',
  'e2e/scanning',
  'examples/quickstart',
  'examples/signals',
  'faults/crowd',
  'faults/suspects',
  'faults/sync-order',
  'hosts/exec',
  'hosts/perl-ruby.',
  'hosts/python.',
  'interop/uwsgi',
  'net/crash',
  'net/hostile',
  'net/keep-alive',
  'net/replay',
  'security/identity',
]

/** They take longest, so they begin first: otherwise the last of them would run alone. */
const SLOW = [
  'faults/everything',
  'faults/kill',
  'e2e/life',
  'interop/',
  'faults/suspects',
  'cli/output',
  'control/sockets',
  'faults/crowd',
  'e2e/handlers',
  'e2e/scanning',
  'e2e/failures',
  'hosts/perl-like-uwsgi',
  'faults/watches',
  'faults/hostile-names',
  'net/listening',
  'cli/fsck.',
  'e2e/schedules',
  'faults/commands-killed',
  'e2e/signals',
  'e2e/service',
  'cli/doctor',
  'cli/dead-letters',
  'hosts/python-like-uwsgi',
  'e2e/leadership',
  'hosts/faults',
  'cli/usage',
  'faults/',
  'net/',
  'hosts/',
]

const startsWith = entry => file => file.startsWith(entry)

export const isShort = file => SHORT.some(entry => file.startsWith(entry))

/** Slow files first, the others in their order. */
export function slowFirst(files) {
  const slow = SLOW.flatMap(entry => files.filter(startsWith(entry)))
  return [...new Set([...slow, ...files])]
}
