import { after } from 'node:test'
import { Pane } from './pane.js'

/** A terminal that a test sees and types into, and that is gone when the test has ended. */
export class Tmux extends Pane {
  constructor(...given: ConstructorParameters<typeof Pane>) {
    super(...given)
    after(() => this.close())
  }
}
