// Loaded into the process of each test file before the file itself: whatever it starts inherits the file's name, by which
// started.mjs finds it, and its end is told the runner as seconds of processor time. Forks of the test do not load this again.
import { writeFileSync } from 'node:fs'
import { cpuSeconds, usageFile } from './started.mjs'
import { nameOf, readWeights } from './weights.mjs'

/**
 * A file that takes more processor time says next to nothing about coverage: it runs the same lines many times. To note them
 * takes each of its processes 100 ms.
 */
const MOST_COVERED_S = 2

process.env.SPOOLD_TEST_FILE ??= `${process.env.SPOOLD_TEST_RUN} ${process.argv[1]}`
const at = process.execArgv.findIndex(argument => argument.endsWith('/test/mark.mjs'))
if (at >= 0) process.execArgv.splice(at, 1)

const { SPOOLD_TEST_USAGE: directory } = process.env
delete process.env.SPOOLD_TEST_USAGE
if (directory !== undefined)
  process.on('exit', () => writeFileSync(usageFile(directory, process.argv[1]), String(cpuSeconds())))

if (
  process.env.NODE_V8_COVERAGE !== undefined &&
  readWeights()(nameOf(process.argv[1])).cpu > MOST_COVERED_S
) {
  delete process.env.NODE_V8_COVERAGE // of what it starts
}
