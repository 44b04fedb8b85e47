import { SpooldError, toError } from '../base/errors.js'
import { main } from './program.js'

/** A sentence for what people can mend, a stack for what only we can. */
function complain(thrown: unknown): void {
  const error = toError(thrown)
  const isForPeople = error instanceof SpooldError || error instanceof TypeError
  process.stderr.write(`spoold: ${isForPeople ? error.message : (error.stack ?? error.message)}\n`)
}

main(process.argv.slice(2)).then(
  code => process.exit(code),
  error => {
    complain(error)
    process.exit(1)
  },
)
