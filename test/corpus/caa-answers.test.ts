/** What CAA records may look like (docs/decisions/what-strangers-write.md). */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type dnsPacket from 'dns-packet'
import { checkCaa } from '../../workers/caa-check.ts'
import type { CaaFinding } from '../../workers/job.ts'
import { WAIT_MS } from '../support/patience.ts'
import { type ScriptedDns, startDns } from '../workers/scripted-dns.ts'
import { settingsOf } from '../workers/scripted-txt.ts'
import { ACCOUNT, CAA_ANSWERS, type CaaRow, METHOD } from './caa-answers.ts'

const NAME = 'demo.example'

/** Other octets than the encoder would write for the type. */
const recordOf = (data: Buffer): dnsPacket.Answer => ({ type: 'UNKNOWN_257' as never, name: NAME, ttl: 60, data })

describe('CAA records', () => {
  let server: ScriptedDns
  let records: CaaRow[3] = []
  before(async () => {
    server = await startDns(({ name, type }) =>
      name === NAME && type === 'CAA' ? { answers: records.map(recordOf) } : {},
    )
  })
  after(() => server.close())

  const check = async (): Promise<CaaFinding | undefined> => {
    const [finding] = await checkCaa({
      subjects: [{ name: NAME, wildcard: false, method: METHOD }],
      identities: ['ca.example'],
      accountUri: ACCOUNT,
      unreachableOk: [],
      timeoutMs: WAIT_MS,
      dns: settingsOf([server.resolver]),
    })
    return finding
  }

  for (const [name, from, boulder, data, refusal] of CAA_ANSWERS) {
    const reader = boulder ? 'Boulder issues' : 'Boulder does not issue'
    test(`${name} (${from}): ${refusal ?? 'permitted'} (${reader})`, async () => {
      records = data
      const finding = await check()
      if (refusal === undefined) assert.equal(finding?.result, 'permitted', JSON.stringify(finding))
      else assert.ok(finding && 'detail' in finding && finding.detail.includes(refusal), JSON.stringify(finding))
    })
  }
})
