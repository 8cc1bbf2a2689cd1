/**
 * The Open MPIC API, version 3.5.0 (open-mpic/open-mpic-specification, openapi.yaml): what is asked and what is answered,
 * as far as ACME needs it. Members of ours, which others ignore, begin with `x_`.
 */

import { z } from 'zod/v4'

/** Below the URL of a perspective. */
export const MPIC_PATH = '/mpic'

const MAX_TEXT = 512
const text = () => z.string().min(1).max(MAX_TEXT)

/** The methods that a perspective of ours can check; the API has others, which are not of ACME. */
const DcvParameters = z.discriminatedUnion('validation_method', [
  z.object({ validation_method: z.literal('acme-http-01'), token: text(), key_authorization: text() }),
  /** base64url. */
  z.object({ validation_method: z.literal('acme-dns-01'), key_authorization_hash: text() }),
  /** Hexadecimal, as implementations have it; the specification leaves it open. */
  z.object({ validation_method: z.literal('acme-tls-alpn-01'), key_authorization_hash: text() }),
  /** dns-account-01: the API has no name for it, but can ask for any TXT record. */
  z.object({
    validation_method: z.literal('dns-change'),
    dns_record_type: z.literal('TXT'),
    dns_name_prefix: text(),
    challenge_value: text(),
    require_exact_match: z.literal(true),
  }),
])
export type DcvParameters = z.output<typeof DcvParameters>

const CaaParameters = z.object({
  certificate_type: z.enum(['tls-server', 's-mime']).default('tls-server'),
  /** Empty: those of the perspective. */
  caa_domains: z.array(text()).max(100).default([]),
  /** RFC 8657: URL of the account and method that showed control. Without the first only the issuer is compared. */
  x_account_uri: text().optional(),
  x_validation_method: text().optional(),
})

const Common = {
  /** A name, `*.` in front of it for a wildcard, or an IP address. */
  domain_or_ip_target: z.string().min(1).max(255),
  trace_identifier: z.string().max(MAX_TEXT).nullish(),
  orchestration_parameters: z.record(z.string(), z.unknown()).nullish(),
}

export const MpicRequest = z.discriminatedUnion('check_type', [
  z.object({ ...Common, check_type: z.literal('dcv'), dcv_check_parameters: DcvParameters }),
  z.object({ ...Common, check_type: z.literal('caa'), caa_check_parameters: CaaParameters.nullish() }),
])
export type MpicRequest = z.output<typeof MpicRequest>
export type CheckType = MpicRequest['check_type']

const CheckError = z.object({ error_type: z.string().optional(), error_message: z.string().optional() })

const CheckResponse = z.object({
  check_passed: z.boolean(),
  check_completed: z.boolean(),
  errors: z.array(CheckError).nullish(),
})

/** What is read of an answer; everything that decides must be there. */
export const MpicResponse = z.object({
  check_type: z.enum(['dcv', 'caa']),
  domain_or_ip_target: z.string(),
  is_valid: z.boolean(),
  mpic_completed: z.boolean(),
  actual_orchestration_parameters: z.object({ quorum_count: z.int() }),
  perspectives: z.array(z.object({ perspective_code: z.string(), check_response: CheckResponse })),
})
export type MpicResponse = z.output<typeof MpicResponse>

/** How one check went, from the side that made it. */
export interface CheckOutcome {
  passed: boolean
  /** False when nothing can be said about the target. */
  completed: boolean
  /** Why it did not pass; in our words. */
  error?: { type: string; message: string }
  details: Record<string, unknown>
}

/** The whole answer of a perspective that asks nobody else. */
export function renderResponse(request: MpicRequest, outcome: CheckOutcome, code: string, now: Date) {
  const { check_type, domain_or_ip_target, trace_identifier } = request
  const errors = outcome.error ? [{ error_type: outcome.error.type, error_message: outcome.error.message }] : []
  return {
    request_orchestration_parameters: request.orchestration_parameters ?? null,
    actual_orchestration_parameters: { perspective_count: 1, quorum_count: 1, attempt_count: 1 },
    check_type,
    domain_or_ip_target,
    is_valid: outcome.passed,
    mpic_completed: outcome.completed,
    perspectives: [
      {
        perspective_code: code,
        check_response: {
          check_type,
          check_passed: outcome.passed,
          check_completed: outcome.completed,
          errors,
          timestamp_ns: now.getTime() * 1e6,
          details: outcome.details,
        },
      },
    ],
    ...(check_type === 'dcv'
      ? { dcv_check_parameters: request.dcv_check_parameters }
      : { caa_check_parameters: request.caa_check_parameters ?? null }),
    ...(trace_identifier && { trace_identifier }),
    previous_attempt_results: null,
  }
}
