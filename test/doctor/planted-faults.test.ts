import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { startStand, type Stand } from './stand.ts'

describe('chancery doctor', () => {
  let stand: Stand
  before(async () => {
    stand = await startStand()
  })
  after(() => stand?.stop())
  test('finds nothing wrong', async () => {
    const { findings, code } = await stand.doctor()
    console.log(findings.map((f) => `${f.result} ${f.id}: ${f.says} ${f.mend ?? ''}`).join('\n'))
    assert.equal(code, 0)
  })
})
