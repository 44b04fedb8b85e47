import { AbortTask, Tasks } from 'spoold'

export const tasks = new Tasks({ maxRetries: 5, backoff: 'exponential' })

export const sendMail = tasks.task('send-mail', async (to, subject) => {
  if (!to.includes('@')) throw new AbortTask(`not an address: ${to}`)
  console.log(`a mail to ${to} about ${subject}`)
})

export const remind = tasks.task('remind', async to => {
  await sendMail.schedule(to, 'the bill that you have not paid')
})
