import { main } from './program.js'

// `spoold ls DIR | head`: whoever reads has seen enough
process.stdout.on('error', () => process.exit(0))

main(process.argv.slice(2)).then(code => process.exit(code))
