/** dns-01 jobs against scripted name servers, and what their verdicts have to look like. */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { TestContext } from 'node:test'
import type { Dns01Job, DnsSettings, EvidenceStep, ValidationVerdict } from '../../workers/job.ts'
import { validateDns01 } from '../../workers/validate/dns-01.ts'
import { type Script, type ScriptedDns, startDns, txt } from './scripted-dns.ts'

export const KEY_AUTHORIZATION =
  'evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA.9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI'
export const DIGEST = createHash('sha256').update(KEY_AUTHORIZATION).digest('base64url')
export const DOMAIN = 'demo.example'
export const RECORD = `_acme-challenge.${DOMAIN}`

/** Closes at the end of the test. */
export async function serve(
  t: TestContext,
  script: Script,
  host?: string,
  options?: Parameters<typeof startDns>[2],
): Promise<ScriptedDns> {
  const server = await startDns(script, host, options)
  t.after(() => server.close())
  return server
}

/** More time than a stalled machine takes; a test that waits for its end sets its own. */
export function settingsOf(resolvers: readonly string[], changes: Partial<DnsSettings> = {}): DnsSettings {
  return { resolvers, zones: [], timeoutMs: 20_000, retries: 1, ...changes }
}

/** A job that asks `resolvers`, without a wait; `changes` on top. */
export function txtJob(resolvers: readonly string[], changes: Partial<Dns01Job> = {}): Dns01Job {
  return {
    type: 'dns-01',
    identifier: { type: 'dns', value: DOMAIN },
    keyAuthorizationDigest: DIGEST,
    timeoutMs: 40_000,
    propagationWaitMs: 0,
    requireDnssec: false,
    requireAuthoritative: false,
    blockedNetworks: [],
    dns: settingsOf(resolvers),
    ...changes,
  }
}

/** Answers every TXT question with the right digest. */
export const rightAnswer: Script = ({ name, type }) => (type === 'TXT' ? { answers: [txt(name, DIGEST)] } : {})

export async function timedVerdict(job: Dns01Job): Promise<[ValidationVerdict, number]> {
  const startedAt = performance.now()
  return [await validateDns01(job), performance.now() - startedAt]
}

export function assertValid(verdict: ValidationVerdict): void {
  assert.equal(verdict.ok, true, JSON.stringify(verdict))
}

/** The whole text is compared, so that nothing of an answer can be in it. */
export function assertInvalid(
  verdict: ValidationVerdict,
  problem: string,
  what: string,
  { retryable = true, record = RECORD } = {},
): void {
  assert.ok(!verdict.ok, 'the verdict is good')
  assert.deepEqual(
    [verdict.problem, verdict.detail, verdict.retryable],
    [problem, `TXT ${record}: ${what}`, retryable],
    JSON.stringify(verdict),
  )
}

export function looksOf(verdict: ValidationVerdict): EvidenceStep[] {
  return verdict.evidence.filter(({ step }) => step === 'looked-up')
}
