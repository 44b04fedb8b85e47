import { execFileSync } from 'node:child_process'
import { after } from 'node:test'
import { isAlive } from '../process.js'

const PREFIX = 'spoold-test'
export const HUB_ADDRESS = '10.77.0.1'

function ip(...args: readonly string[]): string {
  return execFileSync('ip', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}

/**
 * Machines that are network namespaces. Each has one link to a hub, which is another namespace. Nothing is seen outside, because
 * the bridge is in the hub.
 */
export class Network {
  readonly #prefix = `${PREFIX}-${process.pid}`
  readonly #hub = `${this.#prefix}-hub`
  readonly #names: string[] = [this.#hub]

  constructor(machines: number) {
    removeLeftovers()
    after(() => {
      for (const name of this.#names) ip('netns', 'del', name)
    })
    ip('netns', 'add', this.#hub)
    this.#inHub('link', 'set', 'lo', 'up')
    this.#inHub('link', 'add', 'bridge', 'type', 'bridge')
    this.#inHub('addr', 'add', `${HUB_ADDRESS}/24`, 'dev', 'bridge')
    this.#inHub('link', 'set', 'bridge', 'up')
    for (let i = 0; i < machines; i++) this.#add(i)
  }

  #add(i: number): void {
    const name = this.#name(i)
    ip('netns', 'add', name)
    this.#names.push(name)
    this.#inHub('link', 'add', `to${i}`, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
    this.#inHub('link', 'set', `to${i}`, 'master', 'bridge', 'up')
    ip('-n', name, 'addr', 'add', `10.77.0.${10 + i}/24`, 'dev', 'eth0')
    for (const device of ['lo', 'eth0']) ip('-n', name, 'link', 'set', device, 'up')
  }

  #name(i: number): string {
    return `${this.#prefix}-${i}`
  }

  #inHub(...args: readonly string[]): void {
    ip('-n', this.#hub, ...args)
  }

  /** Returns the beginning of a command that runs on a machine, or in the hub if `machine` is undefined. */
  on(machine: number | undefined): readonly string[] {
    return ['ip', 'netns', 'exec', machine === undefined ? this.#hub : this.#name(machine)]
  }

  cut(machine: number): void {
    this.#inHub('link', 'set', `to${machine}`, 'down')
  }

  restore(machine: number): void {
    this.#inHub('link', 'set', `to${machine}`, 'up')
  }
}

/** Removes the namespaces of tests that were killed. */
function removeLeftovers(): void {
  for (const line of ip('netns', 'list').split('\n')) {
    const [, name, pid] = /^(spoold-test-(\d+)-\w+)/.exec(line) ?? []
    if (name !== undefined && !isAlive(Number(pid))) ip('netns', 'del', name)
  }
}
