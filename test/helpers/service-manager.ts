import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { TestProcess } from './process.js'
import { PYTHON } from './python.js'
import { until } from './until.js'
import { workspace } from './workspace.js'

/** Prints each message as JSON, with the pid of its sender. It is in Python because Node has no unix datagram sockets. */
const RECEIVER = `
import json, os, socket, struct, sys
path = sys.argv[1]
sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
sock.bind('\\0' + path[1:] if path[0] == '@' else path)
if path[0] != '@': os.chmod(path, 0o777)
print('listening', flush=True)
while True:
    data, ancillary, _, _ = sock.recvmsg(65536, 4096)
    pid = None
    for level, kind, value in ancillary:
        if kind == socket.SCM_CREDENTIALS: pid = struct.unpack('3i', value[:12])[0]
        if kind == socket.SCM_RIGHTS:
            for i in range(0, len(value), 4): os.close(struct.unpack('i', value[i:i+4])[0])
    print(json.dumps([pid, data.decode()]), flush=True)
`

export interface Message {
  /** The sender, as the kernel says. */
  readonly pid: number
  readonly fields: Readonly<Record<string, string>>
}

/** A process that listens as systemd does on NOTIFY_SOCKET. */
export class ServiceManagerSocket {
  readonly socket: string
  readonly #process: TestProcess

  private constructor(socket: string) {
    this.socket = socket
    this.#process = new TestProcess(PYTHON, ['-c', RECEIVER, socket])
  }

  /** @param socket a path, or `@` and the name of an abstract socket */
  static async listen(socket = join(workspace(), 'notify')): Promise<ServiceManagerSocket> {
    const manager = new ServiceManagerSocket(socket)
    await manager.#process.waitFor('listening\n')
    if (!socket.startsWith('@')) await until('the socket is there', () => existsSync(socket))
    return manager
  }

  /** The messages that have arrived so far, without systemd-notify's own BARRIER messages. */
  get messages(): Message[] {
    const lines = this.#process.output.split('\n').slice(1, -1)
    return lines
      .map(line => JSON.parse(line) as [number, string])
      .map(([pid, text]) => ({ pid, fields: fieldsOf(text) }))
      .filter(({ fields }) => !('BARRIER' in fields))
  }

  /** Returns the messages that have this variable. */
  with(name: string): Message[] {
    return this.messages.filter(({ fields }) => name in fields)
  }

  /** Waits for a message with this variable, and returns the first one, apart from the first `after` messages. */
  async heard(name: string, after = 0): Promise<Message> {
    return until(`${name} is sent`, () => this.messages.slice(after).find(({ fields }) => name in fields))
  }
}

function fieldsOf(text: string): Record<string, string> {
  return Object.fromEntries(
    text
      .split('\n')
      .filter(Boolean)
      .map(line => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  )
}
