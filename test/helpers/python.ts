import { join } from 'node:path'
import { ROOT } from './workspace.js'

interface Environment {
  readonly name: string
  readonly python: string
  readonly directory: string
}

interface Pythons {
  readonly PYTHON: string
  python(version: Version): string
  environments(): Environment[]
  isComplete(environment: Environment): boolean
}

export type Version = `${2 | 3}.${number}`

/** A module of test/python is imported at run time, because programs that run before the tests are built use it, too. */
const pythons: Pythons = await import(join(ROOT, 'test/python/environments.mjs'))

/** Debian's Python, for which Debian's uWSGI and uwsgidecorators.py are made: the requirement `python3`. */
export const PYTHON = pythons.PYTHON

/** Returns the path of the interpreter of a version. For `3.12`, the requirement is `python3.12`. */
export const python = pythons.python

/** The virtual environments that test/python asks for; a test names one as the requirement `venv:NAME`. */
export const ENVIRONMENTS: ReadonlyMap<string, Environment> = new Map(
  pythons.environments().map(environment => [environment.name, environment]),
)

/** Returns the directory of a virtual environment, which install.mjs makes. */
export function virtualenv(name: string): string {
  const environment = ENVIRONMENTS.get(name)
  if (environment === undefined) throw new Error(`test/python/${name}.txt is missing`)
  return environment.directory
}

export function isInstalled(name: string): boolean {
  const environment = ENVIRONMENTS.get(name)
  return environment !== undefined && pythons.isComplete(environment)
}
