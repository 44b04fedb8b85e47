/** Called once for each task. */
export default (env, task) => {
  task.log(`a mail to ${env.to}`)
  return task.SPOOL_OK
}
