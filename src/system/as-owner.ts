import { actAsOwner } from './owner-process.js'

/** The entry of a process that root starts to act as another user. */
actAsOwner(process.argv.slice(2))
