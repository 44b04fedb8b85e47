import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { eachReport, Outbox } from '#src/ipc/messages.js'
import { REPORT_KINDS } from '#src/task/report.js'

describe('reports on their way to the master', () => {
  it('arrive as they were sent, through JSON', () => {
    const report = fc.record(
      {
        ref: fc.string(),
        kind: fc.constantFrom(...REPORT_KINDS),
        ranMs: fc.nat(),
        atMs: fc.nat(),
        detail: fc.string(),
      },
      { requiredKeys: ['ref', 'kind', 'ranMs'] },
    )
    fc.assert(
      fc.property(fc.array(report), reports => {
        const outbox = new Outbox()
        for (const [number, each] of reports.entries()) outbox.add(number, each)
        const message = JSON.parse(JSON.stringify(outbox.take([1], 5)))
        const got: object[] = []
        eachReport(
          message,
          number => reports[number]?.ref,
          (_, each) => got.push(each),
        )
        assert.deepEqual(
          got,
          reports.map(each => ({ ...each })),
        )
        assert.equal(outbox.isEmpty, true)
      }),
    )
  })
})
