/**
 * What handlers have in place of the function that sends to the parent of their process or thread: the parent is the master, which
 * would take everything for the worker's.
 *
 * @param name of the function @param say called at the first use
 */
export function sendNothing(name: string, say: (text: string) => void): (...args: unknown[]) => boolean {
  let isSaid = false
  return (...args) => {
    if (!isSaid)
      say(`what a handler sends by ${name} reaches nobody: the channel is between spoold and its worker\n`)
    isSaid = true
    const sent = args.at(-1)
    if (typeof sent === 'function') process.nextTick(sent as () => void, null)
    return true
  }
}
