// Makes the virtual environments that are missing: `node test/python/install.mjs [NAME…]`. What lies in their directory may be
// deleted at any time.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { COMPLETE, environments, isComplete } from './environments.mjs'

/** Makes an environment, and begins anew if an earlier run left it half made. */
const MAKE = `
test -e "$1/${COMPLETE}" && exit
rm -rf "$1"
"$2" -m venv "$1" && "$1/bin/pip" install --disable-pip-version-check -r "$3" && : >"$1/${COMPLETE}"
`

/** How many environments are made at once: one compiles while another waits for the network. */
const AT_ONCE = 2

const names = process.argv.slice(2)
const all = environments()
for (const name of names.filter(each => !all.some(environment => environment.name === each)))
  fail(`${name}: expected one of ${all.map(each => each.name).join(', ')}`)
const wanted = all.filter(({ name }) => names.length === 0 || names.includes(name))
await Promise.all(Array.from({ length: AT_ONCE }, makeWanted))

async function makeWanted() {
  for (let environment = wanted.shift(); environment !== undefined; environment = wanted.shift()) {
    const { name, python, directory, requirements } = environment
    if (isComplete(environment)) console.log(`${name}: ${directory} is there`)
    else if (!existsSync(python)) console.log(`${name}: not made, because there is no ${python}`)
    else if (await make(environment)) console.log(`${name}: ${directory} was made`)
    else fail(`${name}: ${python} could not make an environment of ${requirements}`)
  }
}

function fail(line) {
  console.error(line)
  process.exitCode = 1
}

/** Makes an environment under a lock, because two runs would write into one another's directory. */
async function make({ python, directory, requirements, build }) {
  mkdirSync(dirname(directory), { recursive: true })
  const command = ['sh', '-c', MAKE, 'sh', directory, python, requirements]
  const making = spawn('flock', [`${directory}.lock`, ...command], {
    cwd: dirname(requirements), // PIP_CONSTRAINT is relative
    env: { ...process.env, ...build },
    stdio: 'inherit',
  })
  const [status] = await once(making, 'close')
  return status === 0
}
