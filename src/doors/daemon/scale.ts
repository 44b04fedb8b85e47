import { ControlError } from '../../formats/control/protocol.js'
import type { Master } from '../../runtime/supervisor/master.js'
import type { Wish } from '../../runtime/supervisor/pool-size.js'
import type { Action } from '../control/actions.js'

interface Arguments {
  readonly spool: string
  readonly to: string
}

/** `scale` of the control sockets: how many processes a spool has, by hand. */
export function scaleAction(master: Pick<Master, 'pools'>): Action {
  return {
    role: 'operator',
    args: { spool: 'text', to: 'text' },
    run({ spool, to }: Arguments) {
      const pool = master.pools.find(each => each.spool === spool)
      if (pool === undefined) throw new ControlError('failed', `this daemon does not run ${spool}`)
      pool.size.set(wishOf(to), 'by hand')
      const { wanted, present, size } = pool.stats
      return { pid: process.pid, wanted, present, size }
    },
  }
}

/** `4`, `+1`, `-1` or `auto` */
function wishOf(text: string): Wish {
  if (text === 'auto') return 'auto'
  const [, sign, digits] = /^([+-]?)([0-9]{1,6})$/.exec(text) ?? []
  if (digits === undefined)
    throw new ControlError('invalid-args', `expected N, +N, -N or auto, got ${JSON.stringify(text)}`)
  const count = Number(digits)
  if (sign === '') return { to: count }
  return { by: sign === '-' ? -count : count }
}
