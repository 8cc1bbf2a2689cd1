/** dns-01 jobs against scripted name servers, and what their verdicts have to look like. */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { TestContext } from 'node:test'
import type { Dns01Job, DnsSettings, EvidenceStep, ValidationVerdict } from '../../workers/job.ts'
import { validateDns01 } from '../../workers/validate/dns.ts'
import { WAIT_MS } from '../support/patience.ts'
import { type Script, type ScriptedDns, serve, txt } from './scripted-dns.ts'
import { assertValid } from './verdicts.ts'

export const KEY_AUTHORIZATION =
  'evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA.9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI'
export const DIGEST = createHash('sha256').update(KEY_AUTHORIZATION).digest('base64url')
export const DOMAIN = 'demo.example'
export const RECORD = `_acme-challenge.${DOMAIN}`

/** More time than a stalled machine takes; a test that waits for its end sets its own. */
export function settingsOf(resolvers: readonly string[], changes: Partial<DnsSettings> = {}): DnsSettings {
  return { resolvers, zones: [], timeoutMs: WAIT_MS, retries: 1, ...changes }
}

/** A job that asks `resolvers`, without a wait; `changes` on top. */
export function txtJob(resolvers: readonly string[], changes: Partial<Dns01Job> = {}): Dns01Job {
  return {
    type: 'dns-01',
    identifier: { type: 'dns', value: DOMAIN },
    keyAuthorizationDigest: DIGEST,
    timeoutMs: 2 * WAIT_MS,
    propagationWaitMs: 0,
    requireDnssec: false,
    requireAuthoritative: false,
    blockedNetworks: [],
    dns: settingsOf(resolvers),
    ...changes,
  }
}

type Changes = Partial<Omit<Dns01Job, 'dns'>> & { dns?: Partial<DnsSettings> }

/** The verdict on what one name server says. */
export async function verdictOn(t: TestContext, script: Script, { dns, ...changes }: Changes = {}) {
  const server = await serve(t, script)
  return { server, verdict: await verdictAt(server, { ...changes, ...(dns && { dns }) }) }
}

export const verdictAt = ({ resolver }: ScriptedDns, { dns = {}, ...changes }: Changes = {}) =>
  validateDns01(txtJob([], { ...changes, dns: settingsOf([resolver], dns) }))

/** Answers every TXT question with the right digest. */
export const rightAnswer: Script = ({ name, type }) => (type === 'TXT' ? { answers: [txt(name, DIGEST)] } : {})

export async function assertValidOn(t: TestContext, script: Script, changes?: Changes): Promise<void> {
  assertValid((await verdictOn(t, script, changes)).verdict)
}

/** Of `assertInvalid` after the verdict. */
type Expected = [problem: string, what: string, more?: { retryable?: boolean; record?: string }]

export async function assertInvalidOn(
  t: TestContext,
  script: Script,
  expected: Expected,
  changes?: Changes,
): Promise<ScriptedDns> {
  const { server, verdict } = await verdictOn(t, script, changes)
  assertInvalid(verdict, ...expected)
  return server
}

/** The whole text is compared, so that nothing of an answer can be in it. */
export function assertInvalid(
  verdict: ValidationVerdict,
  ...[problem, what, { retryable = true, record = RECORD } = {}]: Expected
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
