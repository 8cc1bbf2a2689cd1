/** Translates validation jobs into requests of the Open MPIC API. */

import type { CaaJob, CaaSubject, ValidationJob } from '../../workers/job.ts'
import type { DcvParameters, MpicRequest } from './perspective-api.ts'

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
