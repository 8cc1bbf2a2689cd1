/**
 * A perspective as a process: the service's validators behind the Open MPIC API. It has no
 * database, signer or CA key, and keeps no results.
 */

import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Logger } from 'pino'
import type { BuiltInJob, CaaFinding, CaaJob, EvidenceStep, ValidationVerdict } from '../../workers/job.ts'
import { WorkerPoolError } from '../../workers/job.ts'
import { WorkerPool } from '../../workers/pool.ts'
import { formatIpAddress, parseIpAddress } from '../shared/lib/ip-address.ts'
import { type Identifier, normalizeDnsName } from '../shared/protocol/identifier.ts'
import type { CaaSettings } from '../validation/dns-checks.ts'
import { type DnsMethodSettings, http01Job, type JobSettings, tlsAlpn01Job, txtJob } from '../validation/jobs.ts'
import { accountLabelIn, type CheckOutcome, type DcvParameters, type MpicRequest } from './perspective-api.ts'
import { type Answered, Busy, startPerspectiveServer } from './perspective-server.ts'

/** Configuration sections that a perspective reads; other sections of a service's file are allowed. */
export const PERSPECTIVE_SECTIONS = ['perspective', 'challenges', 'dns', 'acme', 'logging']

export interface PerspectiveSettings {
  bind: string
  port: number
  /** Its own name in its answers. */
  code: string
  tokens: readonly string[]
  certFile: string | undefined
  keyFile: string | undefined
  clientCaFile: string | undefined
  maxConcurrent: number
  jobs: Pick<JobSettings, 'http01' | 'tlsAlpn01' | 'dns01' | 'dnsAccount01'>
  caa: CaaSettings
}

export interface RunningPerspective {
  port: number
  stop(timeoutMs: number): Promise<void>
}

const THREADS = 2
const VALIDATION_STOP_MS = 1_000

/** @throws Error in a plain sentence when the start fails */
export async function startPerspective(settings: PerspectiveSettings, log: Logger): Promise<RunningPerspective> {
  const { bind, port, code, tokens, certFile, keyFile, clientCaFile, maxConcurrent } = settings
  if (certFile === undefined || keyFile === undefined)
    throw new Error('perspective.cert_path and perspective.key_path are missing; a perspective speaks HTTPS only')
  if (tokens.length === 0 && clientCaFile === undefined)
    throw new Error('anybody could ask: give perspective.tokens, or perspective.client_ca_path')
  const [cert, key, clientCa] = [
    await textOf(certFile),
    await textOf(keyFile),
    clientCaFile === undefined ? undefined : await textOf(clientCaFile),
  ]

  const pool = new WorkerPool({
    threads: THREADS,
    concurrentTasksPerThread: Math.ceil(maxConcurrent / THREADS),
    maxQueue: maxConcurrent,
    onThreadError: (error) => log.error({ err: error }, 'validation thread failed'),
  })

  async function check(request: MpicRequest): Promise<CheckOutcome> {
    try {
      if (request.check_type === 'dcv') {
        const job = dcvJob(settings.jobs, request)
        return job ? dcvOutcome(job, await pool.validate(job)) : notCheckable(request)
      }
      const job = caaJob(settings.caa, request)
      if (!job) return notCheckable(request)
      const [finding] = await pool.checkCaa(job)
      return finding ? caaOutcome(finding) : notCheckable(request)
    } catch (error) {
      if (error instanceof WorkerPoolError && error.code !== 'lost') throw new Busy('no room', { cause: error })
      throw error
    }
  }

  try {
    const server = await startPerspectiveServer({
      bind,
      port,
      code,
      tokens,
      cert,
      key,
      clientCa,
      check,
      onAnswered: (answered) => logAnswered(log, answered),
      onFault: (error) => log.error({ err: error }, 'a check gave no verdict'),
    })
    return {
      port: server.port,
      async stop(timeoutMs) {
        await server.close(timeoutMs)
        await pool.close(VALIDATION_STOP_MS)
      },
    }
  } catch (cause) {
    await pool.close(0)
    const { code: reason } = cause as NodeJS.ErrnoException
    throw new Error(`cannot listen on ${bind}:${port}: ${reason ?? (cause as Error).message}`, { cause })
  }
}

async function textOf(file: string): Promise<string> {
  try {
    return await readFile(path.resolve(file), 'utf8')
  } catch (cause) {
    throw new Error(`${file} cannot be read (${(cause as NodeJS.ErrnoException).code})`, { cause })
  }
}

function logAnswered(log: Logger, { request, outcome, ...facts }: Answered): void {
  const asked = request && {
    check: request.check_type,
    target: request.domain_or_ip_target,
    traceId: request.trace_identifier,
    ...(request.check_type === 'dcv' && { method: request.dcv_check_parameters.validation_method }),
  }
  const found = outcome && { passed: outcome.passed, completed: outcome.completed, reason: outcome.error?.message }
  // Strangers come in thousands.
  const level = facts.status === 401 ? 'debug' : 'info'
  log[level]({ event: 'perspective_check', ...facts, ...asked, ...found }, 'request answered')
}

/** @returns undefined unless the target is a valid name or address */
function identifierOf(target: string): Identifier | undefined {
  const octets = parseIpAddress(target)
  if (octets) return { type: 'ip', value: formatIpAddress(octets) }
  const name = normalizeDnsName(target)
  return name.ok ? { type: 'dns', value: name.value } : undefined
}

/** Builds the job of a check. A wildcard is validated at the name below `*.`. */
function dcvJob(
  jobs: PerspectiveSettings['jobs'],
  request: Extract<MpicRequest, { check_type: 'dcv' }>,
): BuiltInJob | undefined {
  const identifier = identifierOf(request.domain_or_ip_target.replace(/^\*\./, ''))
  if (!identifier) return undefined
  const asked: DcvParameters = request.dcv_check_parameters
  // The caller has already seen the record. `tries: 1` therefore skips the propagation wait.
  const txt = (method: DnsMethodSettings, digest: string) => txtJob(method, { identifier, tries: 1 }, digest)
  switch (asked.validation_method) {
    case 'acme-http-01': {
      const { token, key_authorization: keyAuthorization } = asked
      return /^[A-Za-z0-9_-]+$/.test(token) ? http01Job(jobs, { identifier, token, keyAuthorization }) : undefined
    }
    case 'acme-tls-alpn-01': {
      const digest = Buffer.from(asked.key_authorization_hash, 'hex')
      return digest.length === 32 ? tlsAlpn01Job(jobs, identifier, digest.toString('base64url')) : undefined
    }
    case 'acme-dns-01':
      if (identifier.type === 'ip') return undefined
      return { type: 'dns-01', ...txt(jobs.dns01, asked.key_authorization_hash) }
    case 'dns-change': {
      const accountLabel = accountLabelIn(asked.dns_name_prefix)
      if (accountLabel === undefined || identifier.type === 'ip') return undefined
      return { type: 'dns-account-01', accountLabel, ...txt(jobs.dnsAccount01, asked.challenge_value) }
    }
  }
}

function caaJob(settings: CaaSettings, request: Extract<MpicRequest, { check_type: 'caa' }>): CaaJob | undefined {
  const { domain_or_ip_target: target, caa_check_parameters: asked } = request
  const wildcard = target.startsWith('*.')
  const identifier = identifierOf(wildcard ? target.slice(2) : target)
  if (identifier?.type !== 'dns' || asked?.certificate_type === 's-mime') return undefined
  const domains = asked?.caa_domains.map((name) => name.toLowerCase()) ?? []
  const identities = domains.length > 0 ? domains : settings.identities
  if (identities.length === 0) return undefined
  const method = asked?.x_validation_method
  return {
    ...settings,
    identities,
    subjects: [{ name: identifier.value, wildcard, ...(method !== undefined && { method }) }],
    accountUri: asked?.x_account_uri ?? '',
    issuerOnly: asked?.x_account_uri === undefined,
  }
}

function notCheckable(request: MpicRequest): CheckOutcome {
  const error = { type: 'request:parameters', message: 'this cannot be checked for this target' }
  const details = request.check_type === 'caa' ? NO_CAA : {}
  return { passed: false, completed: false, error, details }
}

/** A verdict about the target completes the check; a fault on our side does not. */
function dcvOutcome(job: BuiltInJob, verdict: ValidationVerdict): CheckOutcome {
  const details = DETAILS[job.type](verdict.evidence)
  if (verdict.ok) return { passed: true, completed: true, details }
  // The caller keeps this as evidence, and may read reasons that clients may not.
  const withheld = last(verdict.evidence, 'behind-redirect')
  const message = withheld ? `${verdict.detail}: ${withheld['reason']}` : verdict.detail
  const error = { type: `${verdict.problem}:${job.type}`, message }
  return { passed: false, completed: verdict.problem !== 'serverInternal', error, details }
}

function caaOutcome(finding: CaaFinding): CheckOutcome {
  const records = last(finding.evidence, 'caa-records')
  const details = {
    caa_record_present: records !== undefined,
    found_at: records?.['at'] ?? null,
    records_seen: records ? JSON.stringify(records['records']) : null,
  }
  if ('detail' in finding) {
    const error = { type: `caa:${finding.result}`, message: finding.detail }
    return { passed: false, completed: finding.result === 'forbidden', error, details }
  }
  return { passed: true, completed: true, details }
}

const NO_CAA = { caa_record_present: false, found_at: null, records_seen: null }

const last = (evidence: readonly EvidenceStep[], step: string) => evidence.findLast((one) => one.step === step)

/** Leaves out bytes of the target, although the API has members for some. */
const DETAILS: Record<BuiltInJob['type'], (evidence: readonly EvidenceStep[]) => Record<string, unknown>> = {
  'http-01': (evidence) => ({
    validation_method: 'acme-http-01',
    response_history: null,
    response_url: last(evidence, 'redirect')?.['to'] ?? null,
    response_status_code: last(evidence, 'response')?.['status'] ?? null,
    response_page: null,
    resolved_ip: last(evidence, 'connected')?.['address'] ?? null,
  }),
  'tls-alpn-01': () => ({ common_name: '' }),
  'dns-01': txtDetails,
  'dns-account-01': txtDetails,
  'dns-persist-01': txtDetails,
}

function txtDetails(evidence: readonly EvidenceStep[]) {
  const found = last(evidence, 'looked-up')
  return {
    records_seen: null,
    response_code: null,
    ad_flag: found?.['authenticated'] ?? null,
    found_at: found?.['name'] ?? null,
    cname_chain: found?.['aliases'] ?? null,
  }
}
