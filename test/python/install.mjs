// Makes the virtual environments that are missing: `node test/python/install.mjs [NAME…]`. What lies in their directory may be
// deleted at any time.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { COMPLETE, environments, isComplete } from './environments.mjs'

/** What an earlier run left half made is begun anew. */
const MAKE = `
test -e "$1/${COMPLETE}" && exit
rm -rf "$1"
"$2" -m venv "$1" && "$1/bin/pip" install --disable-pip-version-check -r "$3" && : >"$1/${COMPLETE}"
`

const names = process.argv.slice(2)
const all = environments()
for (const name of names.filter(each => !all.some(environment => environment.name === each)))
  fail(`${name}: expected one of ${all.map(each => each.name).join(', ')}`)
for (const environment of all.filter(({ name }) => names.length === 0 || names.includes(name))) {
  const { name, python, directory, requirements } = environment
  if (isComplete(environment)) console.log(`${name}: ${directory} is there`)
  else if (!existsSync(python)) console.log(`${name}: not made, because there is no ${python}`)
  else if (make(environment)) console.log(`${name}: ${directory} was made`)
  else fail(`${name}: ${python} could not make an environment of ${requirements}`)
}

function fail(line) {
  console.error(line)
  process.exitCode = 1
}

/** Under a lock: two runs would write into one another's directory. */
function make({ python, directory, requirements, build }) {
  mkdirSync(dirname(directory), { recursive: true })
  const command = ['sh', '-c', MAKE, 'sh', directory, python, requirements]
  const { status, error } = spawnSync('flock', [`${directory}.lock`, ...command], {
    cwd: dirname(requirements), // PIP_CONSTRAINT is relative
    env: { ...process.env, ...build },
    stdio: 'inherit',
  })
  if (error !== undefined) throw error
  return status === 0
}
