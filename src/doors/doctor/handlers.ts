import { accessSync, constants } from 'node:fs'
import { messageOf } from '../../base/errors.js'
import { shellWord } from '../../base/printable.js'
import { checkWay } from '../../engines/spool/permissions.js'
import { type Diagnosis, diagnosisOf } from './diagnosis.js'

/** Handlers and working directories, as the user of this process; the configuration was checked as the user that reads it. */
export function* checkReadable(
  files: readonly string[],
  directories: readonly string[],
): Generator<Diagnosis> {
  for (const [path, right, needed] of [
    ...files.map(file => [file, constants.R_OK, 'read'] as const),
    ...directories.map(directory => [directory, constants.X_OK, 'entered'] as const),
  ])
    yield checkRight(path, right, needed)
}

function checkRight(path: string, right: number, needed: string): Diagnosis {
  const about = { topic: 'handlers', about: path } as const
  try {
    checkWay(path)
  } catch (error) {
    return diagnosisOf('handlers', path, error)
  }
  try {
    accessSync(path, right)
    return { level: 'ok', ...about, text: `it can be ${needed}` }
  } catch (error) {
    const fix = `chmod a+r${needed === 'read' ? '' : 'x'} ${shellWord(path)}`
    return {
      level: 'error',
      ...about,
      text: `it cannot be ${needed} by uid ${process.geteuid?.()}: ${messageOf(error)}`,
      fix,
    }
  }
}
