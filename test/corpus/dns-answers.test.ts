/** What an answer to the TXT question of dns-01 may look like (docs/decisions/what-strangers-write.md). */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { validateDns01 } from '../../workers/validate/dns.ts'
import { type ScriptedDns, startDns } from '../workers/scripted-dns.ts'
import { txtJob } from '../workers/scripted-txt.ts'
import { DNS_ANSWERS, type DnsRow } from './dns-answers.ts'

describe('an answer to dns-01', () => {
  let server: ScriptedDns
  let message: DnsRow[3]
  before(async () => {
    server = await startDns(({ query, transport }) => message(query, transport))
  })
  after(() => server.close())

  for (const [name, from, go, bytes, refusal] of DNS_ANSWERS) {
    const reader = go ? 'Go finds the digest' : 'Go does not find the digest'
    const outcome = refusal === undefined ? 'proves control' : `is refused: ${refusal}`
    test(`${name} (${from}) ${outcome} (${reader})`, async () => {
      message = bytes
      const verdict = await validateDns01(txtJob([server.resolver]))
      if (refusal === undefined) assert.ok(verdict.ok, JSON.stringify(verdict))
      else assert.ok(!verdict.ok && verdict.detail.includes(refusal), JSON.stringify(verdict))
    })
  }
})
