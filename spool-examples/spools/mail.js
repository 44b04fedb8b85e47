/** Runs the tasks of `mail`, in two processes. */
export default async function mail(env, task) {
  if (!env.to?.includes('@')) throw new Error(`${env.to} is no address`)
  console.log(`process ${process.pid} sends a mail to ${env.to}`)
  return task.SPOOL_OK
}
