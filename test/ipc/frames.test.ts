import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { drawToken, frameOf, MasterDecoder, NoFrame, WorkerDecoder } from '#src/runtime/ipc/frames.js'
import type { MasterMessage, WorkerMessage } from '#src/runtime/ipc/messages.js'

const TOKEN = drawToken()
const SAID: readonly WorkerMessage[] = [
  { type: 'loading', name: 'a handler' },
  { type: 'log', name: 't', message: 'café \ud83d\udc4b, and a NUL: \0' },
  { type: 'drained' },
]
const TOLD: readonly MasterMessage[] = [
  { type: 'signal', number: 7 },
  { type: 'answer', id: 1, values: ['\xff\x00'] },
]

const chunksOf = (bytes: Buffer, size: number) =>
  Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size))

describe('frames', () => {
  it('arrive whole, however the bytes are cut', () => {
    const said = Buffer.concat(SAID.map(message => frameOf(TOKEN, message)))
    const told = Buffer.concat(TOLD.map(message => frameOf(TOKEN, message)))
    for (let size = 1; size <= said.length; size++) {
      const [master, worker] = [new WorkerDecoder(TOKEN), new MasterDecoder()]
      assert.deepEqual(
        chunksOf(said, size).flatMap(chunk => [...master.push(chunk)]),
        SAID,
      )
      assert.deepEqual(
        chunksOf(told, size).flatMap(chunk => [...worker.push(chunk)]),
        TOLD,
      )
      assert.equal(worker.token, TOKEN, 'the worker takes the token from the first frame')
    }
  })

  it('may be as large as the arguments of a task, and are refused beyond a limit', () => {
    const decoder = new WorkerDecoder(TOKEN)
    const large: WorkerMessage = { type: 'log', name: 't', message: '\x01'.repeat(1024 * 1024) }
    assert.deepEqual(
      chunksOf(frameOf(TOKEN, large), 65_536).flatMap(chunk => [...decoder.push(chunk)]),
      [large],
    )
    const frame = frameOf(TOKEN, { type: 'drained' })
    frame.writeUInt32LE(0xffff_ffff, 4)
    assert.throws(() => [...decoder.push(frame.subarray(0, 8))], NoFrame)
  })

  const frame = frameOf(TOKEN, { type: 'drained' })
  const json = (text: string) => {
    const made = Buffer.concat([frame.subarray(0, 8), Buffer.from(text)])
    made.writeUInt32LE(text.length, 4)
    return made
  }
  const foreign: Readonly<Record<string, Buffer>> = {
    'a line': Buffer.from('hello\n'),
    'a short line': Buffer.from('7777'),
    'the frame of another worker': frameOf(drawToken(), { type: 'drained' }),
    'an empty frame': Buffer.concat([frame.subarray(0, 4), Buffer.from([0, 0, 0, 0])]),
    'a frame of the master': frameOf(TOKEN, { type: 'signal', number: 7 }),
    'a frame that is no JSON': json('{"type":"drained"'),
    'the JSON text null': json('null'),
    'an unknown message': json('{"type":"hello"}'),
    'a message type that all objects inherit': json('{"type":"constructor"}'),
    'a message without its fields': json('{"type":"stored"}'),
    'a message with other fields': json('{"type":"stored","tasks":[1]}'),
  }
  for (const [what, bytes] of Object.entries(foreign))
    it(`of a worker are refused if they are ${what}`, () => {
      for (const chunks of [[bytes], [frame, bytes], [Buffer.concat([frame, bytes])]]) {
        const decoder = new WorkerDecoder(TOKEN)
        const heard: string[] = []
        assert.throws(() => {
          for (const chunk of chunks) for (const { type } of decoder.push(chunk)) heard.push(type)
        }, NoFrame)
        assert.deepEqual(
          heard,
          chunks[0] === bytes ? [] : ['drained'],
          'the frames before the invalid one are read',
        )
      }
    })

  it('that are cut off have the bytes after them refused', () => {
    const decoder = new WorkerDecoder(TOKEN)
    assert.deepEqual([...decoder.push(Buffer.of(1, 2))], [])
    assert.throws(() => [...decoder.push(frame)], NoFrame)
  })
})
