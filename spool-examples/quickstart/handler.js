/** Called once for each task. Its result decides what happens to the task's file. */
export default async (env, task) => {
  if (env.flaky === 'yes' && task.attempt === 1) {
    task.log('not today: this one is kept and runs again')
    return task.SPOOL_RETRY
  }
  task.log(`hello ${env.to}${task.body === undefined ? '' : `, your letter has ${task.body.length} bytes`}`)
  return task.SPOOL_OK // done: the file is removed
}
