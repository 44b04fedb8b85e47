export type { Expected } from './assertions.js'
export { type DrainOptions, fake, inline, type KitTasks, type TestKit } from './kit.js'
export type { EndedRun } from './runner.js'
