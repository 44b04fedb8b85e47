import type { CancelNews, CancelResult } from '../../base/task/cancel.js'
import type { TaskName } from '../../base/task/ref.js'
import type { Action } from '../control/actions.js'

export type Cancel = (
  spool: string,
  task: TaskName,
  tell: (news: CancelNews) => void,
) => Promise<CancelResult>

/** So that a client can tell a daemon that waits from one that hangs. */
const NEWS_EVERY_MS = 2000

/** The verb `cancel`: answers when the task has ended. A client that goes does not take its request back. */
export function cancelAction(cancel: Cancel): Action {
  return {
    role: 'operator',
    args: { spool: 'text', task: 'text' },
    async run({ spool, task }: { readonly spool: string; readonly task: string }, { send }) {
      let last: CancelNews | null = null
      const timer = setInterval(() => send(last), NEWS_EVERY_MS)
      try {
        return await cancel(spool, task, news => {
          last = news
          send(news)
        })
      } finally {
        clearInterval(timer)
      }
    },
  }
}
