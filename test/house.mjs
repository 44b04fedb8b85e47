// Prints the house: how large floors and rooms are, which rooms import which, and which files are satellites (small, and imported
// by one file alone). `npm run house`; with `--arrows` each arrow between rooms, with `--satellites` each satellite.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../src', import.meta.url))
const FLOORS = ['doors', 'api', 'hosts', 'runtime', 'admin', 'engines', 'formats', 'system', 'base']
const SMALL = 60
/** How a language begins a comment of a line, and what encloses longer ones. */
const COMMENTS = {
  ts: ['//', '/*', '*/'],
  tsx: ['//', '/*', '*/'],
  js: ['//', '/*', '*/'],
  css: [undefined, '/*', '*/'],
  lua: ['--', '--[[', ']]'],
  py: ['#', '"""', '"""'],
  rb: ['#', '=begin', '=end'],
  pm: ['#', '=head', '=cut'],
  pl: ['#', '=head', '=cut'],
}
const endingOf = file => file.slice(file.lastIndexOf('.') + 1)

/** Returns the number of lines that are neither blank nor only a comment. */
function codeLines(file, text) {
  const [line, open, close] = COMMENTS[endingOf(file)]
  let code = 0
  let isComment = false
  for (const raw of text.split('\n')) {
    const trimmed = raw.trim()
    if (isComment) isComment = !trimmed.includes(close)
    else if (trimmed.startsWith(open)) isComment = !trimmed.slice(open.length).includes(close)
    else if (trimmed !== '' && !(line !== undefined && trimmed.startsWith(line))) code++
  }
  return code
}

const files = readdirSync(root, { recursive: true })
  .filter(file => endingOf(file) in COMMENTS && !file.includes('__pycache__'))
  .sort()
const roomOf = file => file.split('/').slice(0, -1).slice(0, 2).join('/') || '(top)'
const floorOf = room => room.split('/')[0]
const rooms = new Map()
const importers = new Map(files.map(file => [file, new Set()]))
const arrows = new Map()
const lines = new Map()
for (const file of files) {
  const text = readFileSync(join(root, file), 'utf8')
  lines.set(file, codeLines(file, text))
  const room = rooms.get(roomOf(file)) ?? { files: 0, code: 0, satellites: 0 }
  room.files++
  room.code += lines.get(file)
  rooms.set(roomOf(file), room)
  if (!/\.tsx?$/.test(file)) continue
  for (const [, name] of text.matchAll(/(?:from|import|onDemand<\w+>)\s*\(?\s*'(\.[^']+)'/g)) {
    const module = normalize(join(dirname(file), name)).replace(/\.js$/, '')
    const target = [`${module}.ts`, `${module}.tsx`].find(each => importers.has(each))
    if (target === undefined) continue
    importers.get(target).add(file)
    const [from, to] = [roomOf(file), roomOf(target)]
    if (from !== to && from !== '(top)')
      arrows.set(`${from} → ${to}`, (arrows.get(`${from} → ${to}`) ?? 0) + 1)
  }
}
const satellites = files.filter(
  file => /\.tsx?$/.test(file) && importers.get(file).size === 1 && lines.get(file) <= SMALL,
)
for (const file of satellites) rooms.get(roomOf(file)).satellites++

const pad = (value, width = 7) => String(value).padStart(width)
const sum = (some, key) => some.reduce((total, room) => total + room[key], 0)
const row = (name, some) =>
  console.log(
    `${name.padEnd(24)}${pad(sum(some, 'files'))}${pad(sum(some, 'code'))}${pad(sum(some, 'satellites'), 12)}`,
  )
const ends = [...arrows.keys()].map(arrow => arrow.split(' → '))
const between = new Set(
  ends
    .map(pair => pair.map(floorOf))
    .filter(([from, to]) => from !== to)
    .map(pair => pair.join(' → ')),
)
const up = ends.filter(([from, to]) => FLOORS.indexOf(floorOf(to)) < FLOORS.indexOf(floorOf(from)))

console.log(`${'room'.padEnd(24)}${pad('files')}${pad('code')}${pad('satellites', 12)}`)
for (const floor of FLOORS) {
  const own = [...rooms].filter(([room]) => floorOf(room) === floor)
  row(
    floor,
    own.map(([, room]) => room),
  )
  for (const [name, room] of own.sort(([, a], [, b]) => b.code - a.code)) row(`  ${name}`, [room])
}
row('all', [...rooms.values()])
console.log(`\n${arrows.size} arrows between rooms, ${between.size} between floors, ${up.length} of them up`)
for (const pair of up) console.log(`  up: ${pair.join(' → ')}`)
if (process.argv.includes('--arrows'))
  for (const [arrow, count] of [...arrows].sort()) console.log(`${pad(count, 5)}  ${arrow}`)
if (process.argv.includes('--satellites'))
  for (const file of satellites)
    console.log(`${pad(lines.get(file), 5)}  ${file}  ← ${[...importers.get(file)][0]}`)
