import { HOMES } from './homes.js'
import { conforms } from './suite.js'

for (const [name, open] of Object.entries(HOMES)) conforms(name, open)
