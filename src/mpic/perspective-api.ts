/**
 * The parts of the Open MPIC API 3.5.0 that ACME needs (open-mpic/open-mpic-specification,
 * openapi.yaml), and validation jobs as its requests. Our own members begin with `x_`; other implementations ignore them.
 */

import * as z from 'zod/v4'
import type { CaaJob, CaaSubject, ValidationJob } from '../../workers/job.ts'
import { anyObject, boundedList } from '../shared/lib/bounded.ts'

/** Path below a perspective's URL. */
export const MPIC_PATH = '/mpic'

const MAX_TEXT = 512
const text = () => z.string().min(1).max(MAX_TEXT)

/** The methods that our perspectives can check. The API has others that ACME does not use. */
const DcvParameters = z.discriminatedUnion('validation_method', [
  z.object({ validation_method: z.literal('acme-http-01'), token: text(), key_authorization: text() }),
  /** In base64url. */
  z.object({ validation_method: z.literal('acme-dns-01'), key_authorization_hash: text() }),
  /** In hexadecimal, as implementations send it; the specification does not say. */
  z.object({ validation_method: z.literal('acme-tls-alpn-01'), key_authorization_hash: text() }),
  /** For dns-account-01: the API has no name for it, but can request any TXT record. */
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
  /** Empty means the perspective's own list. */
  caa_domains: boundedList(text(), 100).default([]),
  /** RFC 8657: account URL and validation method. Without the account URL only the issuer is compared. */
  x_account_uri: text().optional(),
  x_validation_method: text().optional(),
})

const Common = {
  /** A name, a name after `*.` for a wildcard, or an IP address. */
  domain_or_ip_target: z.string().min(1).max(255),
  trace_identifier: z.string().max(MAX_TEXT).nullish(),
  orchestration_parameters: anyObject().nullish(),
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
  errors: boundedList(CheckError, 100).nullish(),
})

/** The members of an answer that we read. The members that decide are required. */
export const MpicResponse = z.object({
  check_type: z.enum(['dcv', 'caa']),
  domain_or_ip_target: z.string(),
  is_valid: z.boolean(),
  mpic_completed: z.boolean(),
  actual_orchestration_parameters: z.object({ quorum_count: z.int() }),
  perspectives: boundedList(z.object({ perspective_code: z.string(), check_response: CheckResponse }), 100),
})
export type MpicResponse = z.output<typeof MpicResponse>

/** The result of one check, as its perspective sees it. */
export interface CheckOutcome {
  passed: boolean
  /** False when the check says nothing about the target. */
  completed: boolean
  /** Why the check failed, in our own words. */
  error?: { type: string; message: string }
  details: Record<string, unknown>
}

/** Renders the whole answer of a perspective that consults no others. */
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

/** @returns undefined when the API cannot request the method */
export function dcvRequest(job: ValidationJob, traceId: string): MpicRequest | undefined {
  const parameters = dcvParameters(job)
  if (!parameters || job.type === 'extension') return undefined
  const { value } = job.identifier
  return {
    check_type: 'dcv',
    domain_or_ip_target: value,
    dcv_check_parameters: parameters,
    trace_identifier: traceId,
  }
}

function dcvParameters(job: ValidationJob): DcvParameters | undefined {
  switch (job.type) {
    case 'http-01':
      return { validation_method: 'acme-http-01', token: job.token, key_authorization: job.keyAuthorization }
    case 'dns-01':
      return { validation_method: 'acme-dns-01', key_authorization_hash: job.keyAuthorizationDigest }
    case 'tls-alpn-01': {
      const digest = Buffer.from(job.keyAuthorizationDigest, 'base64url').toString('hex')
      return { validation_method: 'acme-tls-alpn-01', key_authorization_hash: digest }
    }
    case 'dns-account-01':
      return {
        validation_method: 'dns-change',
        dns_record_type: 'TXT',
        dns_name_prefix: accountPrefix(job.accountLabel),
        challenge_value: job.keyAuthorizationDigest,
        require_exact_match: true,
      }
    case 'dns-persist-01':
    case 'extension':
      return undefined
  }
}

/** draft-ietf-acme-dns-account-label-03 §3.2. */
const accountPrefix = (label: string) => `_${label}._acme-challenge`

/** @returns the account's label in the prefix, or undefined for any other name */
export function accountLabelIn(prefix: string): string | undefined {
  return /^_([a-z2-7]{16})\._acme-challenge\.?$/i.exec(prefix)?.[1]?.toLowerCase()
}

export function caaRequest({ name, wildcard, method }: CaaSubject, job: CaaJob, traceId: string): MpicRequest {
  return {
    check_type: 'caa',
    domain_or_ip_target: wildcard ? `*.${name}` : name,
    caa_check_parameters: {
      certificate_type: 'tls-server',
      caa_domains: [...job.identities],
      x_account_uri: job.accountUri,
      ...(method !== undefined && { x_validation_method: method }),
    },
    trace_identifier: traceId,
  }
}
