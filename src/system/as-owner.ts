import { actAsOwner } from './owner-process.js'

/** What a process begins with that root starts to act as another user. */
actAsOwner(process.argv.slice(2))
