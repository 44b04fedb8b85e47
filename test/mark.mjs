// Is loaded into the process of each test file before the file itself. Whatever the file starts inherits its name, by which
// started.mjs finds it; at its end the process reports its seconds of processor time. Forks of the test do not load this again.
import { writeFileSync } from 'node:fs'
import { cpuSeconds, usageFile } from './started.mjs'

process.env.SPOOLD_TEST_FILE ??= `${process.env.SPOOLD_TEST_RUN} ${process.argv[1]}`
const at = process.execArgv.findIndex(argument => argument.endsWith('/test/mark.mjs'))
if (at >= 0) process.execArgv.splice(at, 1)

const { SPOOLD_TEST_USAGE: directory } = process.env
delete process.env.SPOOLD_TEST_USAGE
if (directory !== undefined)
  process.on('exit', () => writeFileSync(usageFile(directory, process.argv[1]), String(cpuSeconds())))
