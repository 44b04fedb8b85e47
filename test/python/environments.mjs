// Which Pythons there are, and which virtual environments install.mjs makes with them: one for each NAME.txt beside this file.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Debian's Python, for which its uWSGI and its modules are made. The first python3 of the PATH may be pyenv's. */
export const PYTHON = '/usr/bin/python3'

/** @returns the path of a version such as `3.12`: Debian's, else pyenv's newest, else where Debian's would be */
export function python(version) {
  const versions = join(process.env.PYENV_ROOT ?? join(homedir(), '.pyenv'), 'versions')
  const patches = (existsSync(versions) ? readdirSync(versions) : [])
    .filter(name => name.startsWith(`${version}.`))
    .sort((a, b) => b.localeCompare(a, 'en', { numeric: true }))
  const paths = ['/usr', ...patches.map(name => join(versions, name))].map(each =>
    join(each, 'bin', `python${version}`),
  )
  return paths.find(existsSync) ?? paths[0]
}

const REQUIREMENTS = fileURLToPath(new URL('.', import.meta.url))

/**
 * Lines of a requirements file that are comments to pip: `# python 3.12` asks for another interpreter than Debian's, and
 * `# build NAME=VALUE` sets a variable for the build of packages.
 */
const ASKS = /^# (?:python (?<version>\d+\.\d+)|build (?<name>\w+)=(?<value>.*))$/gm

/**
 * Returns each virtual environment: its `name`, the `requirements` file, the `python` that it is made with, the variables
 * for building packages (`build`), and its `directory`, whose name changes with the file and with the interpreter.
 */
export function environments(requirements = REQUIREMENTS) {
  const files = readdirSync(requirements).filter(file => file.endsWith('.txt'))
  return files.sort().map(file => {
    const name = file.slice(0, -'.txt'.length)
    const text = readFileSync(join(requirements, file), 'utf8')
    const asks = [...text.matchAll(ASKS)].map(({ groups }) => groups)
    const version = asks.find(ask => ask.version)?.version
    const interpreter = version === undefined ? PYTHON : python(version)
    const real = existsSync(interpreter) ? realpathSync(interpreter) : interpreter
    const key = createHash('sha256').update(`${real}\n${text}`).digest('hex').slice(0, 12)
    return {
      name,
      requirements: join(requirements, file),
      python: interpreter,
      build: Object.fromEntries(asks.filter(ask => ask.name).map(ask => [ask.name, ask.value])),
      directory: join(home(), `${name}-${key}`),
    }
  })
}

/** The file that is written last: an environment without it is half made. */
export const COMPLETE = 'spoold-test-complete'

export const isComplete = ({ directory }) => existsSync(join(directory, COMPLETE))

/** Returns the directory of the environments, which all checkouts of a user share. */
function home() {
  const cache = process.env.XDG_CACHE_HOME || join(homedir(), '.cache')
  return resolve(process.env.SPOOLD_TEST_VENVS ?? join(cache, 'spoold-test-venvs'))
}
