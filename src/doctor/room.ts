import { statfsSync } from 'node:fs'
import { quote } from '../spool/permissions.js'
import type { Diagnosis } from './diagnosis.js'

/** Below that a disk is filled by one bad night. */
const SCARCE = 0.05

/** Room for files, in bytes and in inodes. */
export function* checkRoom(spool: string): Generator<Diagnosis> {
  const { bsize, blocks, bavail, files, ffree } = statfsSync(spool)
  const free = `${Math.floor((bavail * bsize) / 2 ** 20)} MiB free`
  // some file systems make inodes as they need them, and count none
  const inodes = files === 0 ? '' : `, ${ffree} inodes free`
  yield {
    ...levelOf(blocks === 0 ? 1 : bavail / blocks, files === 0 ? 1 : ffree / files, spool),
    topic: 'room',
    about: spool,
    text: `${free}${inodes}`,
  }
}

function levelOf(blocks: number, inodes: number, spool: string): Pick<Diagnosis, 'level' | 'fix'> {
  if (Math.min(blocks, inodes) >= SCARCE) return { level: 'ok' }
  const level = blocks === 0 || inodes === 0 ? 'error' : 'warning'
  const fix = `spoold purge --max-age 7d ${quote(spool)} removes dead letters; ${inodes < SCARCE ? 'df -i' : 'df'} ${quote(spool)} tells what is full`
  return { level, fix }
}
