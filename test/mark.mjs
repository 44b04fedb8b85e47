// Loaded into the process of each test file before the file itself: whatever it starts inherits the file's name, by which
// started.mjs finds it. Forks of the test do not load this again.
process.env.SPOOLD_TEST_FILE ??= `${process.env.SPOOLD_TEST_RUN} ${process.argv[1]}`
const at = process.execArgv.findIndex(argument => argument.endsWith('/test/mark.mjs'))
if (at >= 0) process.execArgv.splice(at, 1)
