import { main } from './program.js'

main(process.argv.slice(2)).then(code => process.exit(code))
