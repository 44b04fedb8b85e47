/** Runs the tasks of `reports`, one at a time. */
export default async function report(env, task) {
  console.log(`process ${process.pid} makes the report for ${env.month}`)
  return task.SPOOL_OK
}
