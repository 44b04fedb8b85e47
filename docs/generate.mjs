// `npm run docs` writes the generated pages; with `--check` it only says whether they are current. They come from what
// `npm run build` compiles.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { COMMANDS } from '../build/src/doors/cli/command-table.js'
import { fullName } from '../build/src/doors/exporter/exposition.js'
import { METRICS } from '../build/src/doors/exporter/metrics.js'
import { OPTION_TABLE } from '../build/src/formats/config/option-table.js'
import { keyOf } from '../build/src/formats/config/spools.js'
import { effectOf, uwsgiNames } from '../build/src/formats/config/uwsgi-names.js'
import { manualPage } from './man-page.mjs'

const PREAMBLE = `<!-- Written by \`npm run docs\` from src/formats/config/option-table.ts. Change it there. -->

# Options

Every option that has an effect in spoold. \`spoold --help\` lists the same; \`spoold check app.ini\` reports the errors of a
configuration with file and line.

An option has the same name in all three places:

| where | how |
|---|---|
| ini file | \`spooler-frequency = 5\` in the section \`[uwsgi]\` |
| command line | \`--spooler-frequency 5\`, or any unambiguous abbreviation |
| environment | \`SPOOLD_SPOOLER_FREQUENCY=5\`, or \`UWSGI_SPOOLER_FREQUENCY=5\` |

**If an option is given twice, the later one counts; repeatable options accumulate.** The order is uWSGI's: the environment,
then the command line from left to right (\`--ini FILE\` is read where it stands), then the files named without \`--ini\`, then
the files of \`inherit\`. So in \`spoold app.ini --spooler-frequency 5\` the file has the last word, and in
\`spoold --ini app.ini --spooler-frequency 5\` the flag does. \`SPOOLD_INI=app.ini\`, which
[a web site is told](leaving-uwsgi.md), names the file where the command line names neither one nor a spool.

**Values.** A flag is on with \`true\`, \`on\`, \`yes\`, \`1\` or no value, and off with \`false\`, \`off\`, \`no\` or \`0\`; any
other word counts as on, as in uWSGI, and gets a warning. SECONDS may have a fraction, or units: \`90s\`, \`10m\`, \`1h30m\`, with
\`ms\`, \`s\`, \`m\`, \`h\`, \`d\`, \`w\`. An invalid number is an error, where uWSGI silently takes 0.
Relative paths are relative to the directory in which spoold was started. With \`chdir\`, those of what is opened after it are relative to
that directory: handlers and interpreters, \`cheaper-algo\`, \`spooler-chdir\`, \`safe-pidfile\`, \`master-fifo\`, \`fs-signal\`, the
\`touch-\` options, and the paths of \`stats\`, \`spooler-metrics\` and \`spooler-metrics-file\`.

**Per spool.** An option with a word under *per spool* may differ between spools: that word is its key in
[\`spooler2\`](spools.md), and the option itself is the default for all spools.

uWSGI options that are not listed here are accepted and have no effect; [uwsgi-options.md](uwsgi-options.md) says of each what is missed. Two
warnings name those that a configuration has: work that is not done, and what is harmless. An option that uWSGI
does not know either gets a warning with the closest name, or is an error under \`strict\`. Options marked **spoold** do
not exist in uWSGI.
`

function optionsPage() {
  const groups = new Set(OPTION_TABLE.map(({ group }) => group))
  return [PREAMBLE, ...[...groups].map(section)].join('\n')
}

function section(group) {
  const rows = OPTION_TABLE.filter(spec => spec.group === group).map(rowOf)
  return [
    `## ${group.charAt(0).toUpperCase()}${group.slice(1)}`,
    '',
    '| option | value | default | per spool | meaning |',
    '|---|---|---|---|---|',
    ...rows,
    '',
  ].join('\n')
}

function rowOf(spec) {
  return `| ${[namesOf(spec), shownValue(spec), shownDefault(spec), shownKey(spec), meaningOf(spec)].join(' | ')} |`
}

function namesOf({ name, aliases = [], plain = [], short }) {
  const others = [...aliases, ...plain, ...(short === undefined ? [] : [`-${short}`])]
  return [name, ...others].map(each => `\`${each}\``).join(', ')
}

function shownValue({ kind, choices, value, isList }) {
  if (kind === 'flag') return ['flag', ...(choices ?? []).map(each => `\`${each}\``)].join(', ')
  const words = choices ?? [(value ?? 'VALUE').replaceAll('|', '\\|')] // as in meaningOf: it would end the cell
  const shown = words.map(each => `\`${each}\``).join(', ')
  return isList ? `${shown}, repeatable` : shown
}

function shownDefault({ kind, fallback }) {
  if (kind === 'flag' && typeof fallback !== 'string') return fallback === true ? 'on' : 'off'
  return fallback === undefined || fallback === null ? '' : `\`${fallback}\``
}

function shownKey(spec) {
  const key = keyOf(spec)
  return key === undefined ? '' : `\`${key}\``
}

function meaningOf({ help, isOurs }) {
  const text = help.replaceAll('|', '\\|').replaceAll('*', '\\*')
  return isOurs ? `**spoold** ${text}` : text
}

/** The tables of a page's fields, from the comments of the type: between the two marks, whatever is there is replaced. */
function statusPage(before) {
  const [head, , tail] = before.split(/(?<=<!-- fields: [^\n]* -->\n)|(?=<!-- end of fields -->\n)/)
  return [head, '\n', fieldTables(TYPES), tail].join('')
}

const declared = path => readFileSync(new URL(`../build/src/${path}.d.ts`, import.meta.url), 'utf8')
/** The snapshot, and what it has from the engines. */
const ENGINES = ['PriorityStats', 'LookStats', 'DeadStats', 'DiskStats']
const TYPES = [
  ...interfacesIn(declared('runtime/stats/snapshot')),
  ...['engines/contracts/look-stats', 'engines/feed', 'engines/contracts/upkeep']
    .flatMap(path => interfacesIn(declared(path)))
    .filter(([name]) => ENGINES.includes(name)),
]

function interfacesIn(source) {
  return [...source.matchAll(/interface (\w+) \{\n(.*?)\n\}/gs)].map(([, name, body]) => [name, body])
}

function fieldTables(types) {
  return types
    .map(([name, body]) => {
      const fields = [...body.matchAll(/(?:\/\*\*\s(.*?)\*\/\s*)?readonly (\w+)\??: (.*?);(?=\n|$)/gs)]
      const rows = fields.map(([, comment = '', field, type]) => {
        const meaning = comment
          .replaceAll(/(?:^|\s*\n)\s*\*\s?/g, ' ')
          .trim()
          .replace(/\.$/, '')
        const shown = type.replaceAll(/\s+/g, ' ').replaceAll('readonly ', '').replaceAll('|', '\\|')
        return `| \`${field}\` | \`${shown}\` | ${meaning.replaceAll('|', '\\|')} |`
      })
      return `### ${name}\n\n| field | type | |\n|---|---|---|\n${rows.join('\n')}\n`
    })
    .join('\n')
    .concat('\n')
}

const METRICS_PREAMBLE = `<!-- Written by \`npm run docs\` from src/doors/exporter/metrics.ts. Change it there. -->

# Metrics

All that \`spooler-metrics\` and \`spooler-metrics-file\` publish; [monitoring](monitoring.md) says how. A metric whose value is
not known is left out. Counters count since the daemon started, or took up the spool.

| metric | type | labels | meaning |
|---|---|---|---|
`

function metricsPage() {
  const rows = METRICS.map(
    metric =>
      `| \`${fullName(metric)}\` | ${metric.type} | ${metric.labels.map(each => `\`${each}\``).join(', ')} | ${metric.help} |`,
  )
  return `${METRICS_PREAMBLE}${rows.join('\n')}\n`
}

const UWSGI_PREAMBLE = `<!-- Written by \`npm run docs\` from src/formats/config/uwsgi-names.ts and option-table.ts. Change it there. -->

# uWSGI's options

What becomes of each option of uWSGI 2.0 and 2.1. Files and command lines that have them are accepted; \`spoold check\` and the start
name those that somebody may miss in one warning, and those that nobody misses in another.

`

/** Each option of uWSGI once: what it does here, or why it does nothing. */
function uwsgiPage() {
  const known = OPTION_TABLE.filter(({ isOurs }) => !isOurs).flatMap(spec =>
    [spec.name, ...(spec.aliases ?? []), ...(spec.plain ?? [])].map(name => [name, spec]),
  )
  const taken = new Map(known)
  const others = [...uwsgiNames()].filter(name => !taken.has(name)).map(name => [name, effectOf(name)])
  const rows = (isMissed, heading) => {
    const chosen = others.filter(([, effect]) => effect.isMissed === isMissed)
    return table(heading, chosen.map(([name, { what }]) => [name, what]).sort(byWhat))
  }
  return [
    UWSGI_PREAMBLE,
    '## With an effect\n\n[options.md](options.md) says what each does.\n\n',
    table(
      'does',
      known.map(([name, { part }]) => [name, part === undefined ? 'all' : `part: ${part}`]),
    ),
    '\n## Work that spoold does not do\n\nWhoever needs it has it done by another program, or by uWSGI beside spoold.\n\n',
    rows(true, 'does nothing, where uWSGI does'),
    '\n## Harmless\n\n',
    rows(false, 'does nothing, because'),
  ].join('')
}

const byWhat = ([name, what], [otherName, otherWhat]) =>
  what === otherWhat ? (name < otherName ? -1 : 1) : what < otherWhat ? -1 : 1

function table(heading, rows) {
  const lines = rows.map(([name, what]) => `| \`${name}\` | ${what.replaceAll('|', '\\|')} |\n`)
  return `| option | ${heading} |\n|---|---|\n${lines.join('')}`
}

const DIFFERENCES = JSON.parse(readFileSync(new URL('redis-differences.json', import.meta.url), 'utf8'))

/** The table of what engines have in different ways: between the two marks. */
function redisPage(before) {
  const [head, , tail] = before.split(/(?<=<!-- differences: [^\n]* -->\n)|(?=<!-- end of differences -->\n)/)
  const rows = DIFFERENCES.map(
    ({ what, directory, memory, redis, why }) => `| ${what} | ${directory} | ${memory} | ${redis} | ${why} |`,
  )
  return `${head}\n| | directory | memory | Redis | why |\n|---|---|---|---|---|\n${rows.join('\n')}\n\n${tail}`
}

const REDIS = fileURLToPath(new URL('redis.md', import.meta.url))
const STATUS = fileURLToPath(new URL('status.md', import.meta.url))
const PAGES = {
  'options.md': optionsPage(),
  'uwsgi-options.md': uwsgiPage(),
  'metrics.md': metricsPage(),
  'status.md': statusPage(readFileSync(STATUS, 'utf8')),
  'redis.md': redisPage(readFileSync(REDIS, 'utf8')),
  'man/spoold.1': manualPage(COMMANDS, OPTION_TABLE),
}
const isCheck = process.argv.includes('--check')
for (const [name, text] of Object.entries(PAGES)) {
  const file = fileURLToPath(new URL(name, import.meta.url))
  if (!isCheck) {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  } else if (readFileSync(file, 'utf8') !== text) {
    console.error(`${file} is not current; run "npm run docs"`)
    process.exitCode = 1
  }
}
