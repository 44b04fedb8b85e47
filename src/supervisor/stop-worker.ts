import type { WorkerProcess } from './worker-process.js'

/** The one place where a worker is ended: it is asked, it has mercy, it is killed. Resolves when it is gone. */
export async function stopWorker(
  worker: WorkerProcess,
  mercyMs: number,
  outOfMercy: () => void,
): Promise<void> {
  worker.drain(mercyMs)
  const timer = setTimeout(() => {
    outOfMercy()
    worker.killForMercy()
  }, mercyMs)
  await worker.whenExited
  clearTimeout(timer)
}
