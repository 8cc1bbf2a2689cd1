/**
 * Builds the job of a triggered challenge: what the settings say of its method, and what the challenge adds. A pool of threads
 * does it: one pool is for built-in methods, and one for validator modules if there are any.
 */

import { hash } from 'node:crypto'
import { EXTENSION_LIMITS } from '../../workers/extension/extension-probe.ts'
import {
  type CaaJob,
  type CaaSubject,
  type DnsMethodJob,
  type DnsPersist01Job,
  type DnsTxtJob,
  type ExtensionJob,
  type Http01Job,
  judgedByCaa,
  type TlsAlpn01Job,
  type ValidationJob,
  type ValidationVerdict,
  WorkerPoolError,
} from '../../workers/job.ts'
import { WorkerPool, type WorkerPoolOptions } from '../../workers/pool.ts'
import type { IsRegistry } from '../domain/identifier-policy.ts'
import type { ValidationRequest } from '../services/challenge-triggers.ts'
import { programFile } from '../shared/lib/program-files.ts'
import { accountLabel, type BuiltInType, isChallengeType, keyAuthorization } from '../shared/protocol/challenge.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import type { Urls } from '../shared/protocol/urls.ts'
import type { ChallengeMethods } from './extensions.ts'

/** The members of a DNS job that come from the settings. It waits as long as the first attempt does. */
export type DnsMethodSettings = Omit<DnsMethodJob, 'identifier'>

interface PersistSettings
  extends DnsMethodSettings,
    Pick<DnsPersist01Job, 'issuerDomainNames' | 'allowWildcardPolicy' | 'allowSubdomainPolicy'> {
  /** Whether records may name the account by a hash (draft -02). */
  isHashed: boolean
  /** Undefined without a public suffix list. */
  isRegistry: IsRegistry | undefined
}

/** The part of each job that comes from the settings. */
export interface JobSettings {
  urls: Urls
  http01: Omit<Http01Job, 'type' | 'identifier' | 'token' | 'keyAuthorization'>
  tlsAlpn01: Omit<TlsAlpn01Job, 'type' | 'identifier' | 'keyAuthorizationDigest'>
  dns01: DnsMethodSettings
  dnsAccount01: DnsMethodSettings
  dnsPersist01: PersistSettings
  /** The time of one attempt of a validator module. */
  extensionTimeoutMs(type: string): number
}

/** Builds the CAA check of these names for this account. */
export type CaaJobFactory = (account: NamedAccount, subjects: readonly CaaSubject[]) => CaaJob

type NamedAccount = Pick<ValidationRequest, 'accountId' | 'accountPath'>

/** @param caaJob undefined when CAA is not enforced */
export function createJobFactory(
  settings: JobSettings,
  { extensions }: ChallengeMethods,
  caaJob: CaaJobFactory | undefined,
): (request: ValidationRequest) => ValidationJob {
  const { urls } = settings
  const jobs: Record<BuiltInType, (request: ValidationRequest) => ValidationJob> = {
    'http-01': ({ identifier, token, thumbprint }) =>
      http01Job(settings, { identifier, token, keyAuthorization: keyAuthorization(token, thumbprint) }),
    'dns-01': (request) => ({ type: 'dns-01', ...txtJob(settings.dns01, request, digestOf(request)) }),
    'dns-account-01': (request) => {
      const accountUrl = urls.account(request.accountId, request.accountPath)
      const job = txtJob(settings.dnsAccount01, request, digestOf(request))
      return { type: 'dns-account-01', ...job, accountLabel: accountLabel(accountUrl), accountUrl }
    },
    'tls-alpn-01': (request) => tlsAlpn01Job(settings, request.identifier, digestOf(request)),
    'dns-persist-01': (request) => persistJob(settings, request),
  }

  const moduleTypes = new Set<string>(extensions.modules.map(({ type }) => type))
  const extensionJob = (request: ValidationRequest): ValidationJob => {
    const { type, identifier, wildcard, token, thumbprint, accountId, accountPath } = request
    const timeoutMs = settings.extensionTimeoutMs(type)
    const accountUrl = urls.account(accountId, accountPath)
    const challenge = {
      type,
      identifier,
      wildcard,
      token,
      keyAuthorization: keyAuthorization(token, thumbprint),
      accountUrl,
    }
    return { type: 'extension', challenge: { ...challenge, timeoutMs }, timeoutMs }
  }

  return (request) => {
    const { type } = request
    // A module may replace a built-in method. An unknown type belonged to a removed module.
    const job = isChallengeType(type) && !moduleTypes.has(type) ? jobs[type] : extensionJob
    const caa = request.identifier.type === 'dns' ? caaJob?.(request, [caaSubject(request)]) : undefined
    return { ...job(request), ...(caa && { caa }) }
  }
}

function digestOf({ token, thumbprint }: ValidationRequest): string {
  return hash('sha256', keyAuthorization(token, thumbprint), 'base64url')
}

function caaSubject({ identifier, wildcard, type }: ValidationRequest): CaaSubject {
  return { name: identifier.value, wildcard, method: type }
}

export function http01Job(
  { http01 }: Pick<JobSettings, 'http01'>,
  what: Pick<Http01Job, 'identifier' | 'token' | 'keyAuthorization'>,
): Http01Job {
  return { type: 'http-01', ...what, ...http01 }
}

export function tlsAlpn01Job(
  { tlsAlpn01 }: Pick<JobSettings, 'tlsAlpn01'>,
  identifier: Identifier,
  keyAuthorizationDigest: string,
): TlsAlpn01Job {
  return { type: 'tls-alpn-01', identifier, keyAuthorizationDigest, ...tlsAlpn01 }
}

type Asked = Pick<ValidationRequest, 'identifier' | 'tries'>

export function txtJob(method: DnsMethodSettings, asked: Asked, keyAuthorizationDigest: string): DnsTxtJob {
  return { ...dnsMethodJob(method, asked), keyAuthorizationDigest }
}

function persistJob({ urls, dnsPersist01 }: JobSettings, request: ValidationRequest): DnsPersist01Job {
  const { isHashed, isRegistry, ...method } = dnsPersist01
  const thumbprints = [request.thumbprint, ...request.formerThumbprints.toReversed()]
  return {
    type: 'dns-persist-01',
    ...dnsMethodJob(method, request),
    wildcard: request.wildcard,
    accountUrl: urls.account(request.accountId, request.accountPath),
    ...(isHashed && { hashed: { prefix: urls.accountHashPrefix, thumbprints } }),
    ...(isRegistry && { leastLabelsAbove: registrableLabels(request.identifier, isRegistry) }),
  }
}

/**
 * Counts the labels of the registrable domain. A name above it, such as `co.uk`, has unrelated
 * owners below and proves nothing for them (BR 3.2.2.6).
 */
function registrableLabels({ value }: Identifier, isRegistry: IsRegistry): number {
  const labels = value.split('.')
  const cut = labels.findIndex((_, index) => isRegistry(labels.slice(index).join('.')))
  return cut === -1 ? 0 : labels.length - cut + 1
}

/** Later attempts skip the wait, because the backoff has already passed. */
function dnsMethodJob<M extends DnsMethodSettings>(method: M, { identifier, tries }: Asked): M & DnsMethodJob {
  return { ...method, identifier, propagationWaitMs: tries === 0 ? method.propagationWaitMs : 0 }
}

export interface ValidationPools extends Pick<WorkerPool, 'checkCaa' | 'checkMailDomains'> {
  /** @throws WorkerPoolError; the caller may submit the job again */
  validate(job: ValidationJob): Promise<ValidationVerdict>
  close(timeoutMs: number): Promise<void>
}

type Sizes = Pick<WorkerPoolOptions, 'threads' | 'concurrentTasksPerThread' | 'maxQueue'>

/** @param autoAccept `challenges.auto_accept`: accepts every job without a check */
export function createValidationPools(
  { extensions }: ChallengeMethods,
  autoAccept: boolean,
  sizes: Sizes,
  onThreadError: (error: Error) => void,
): ValidationPools {
  const builtIn = new WorkerPool({ ...sizes, onThreadError })
  const modules =
    extensions.modules.length === 0
      ? undefined
      : new WorkerPool({
          ...sizes,
          onThreadError: (error) => onThreadError(new Error(`validator modules: ${error.message}`, { cause: error })),
          taskFile: programFile('workers/extension/extension-task.ts'),
          threadData: extensions,
          heapLimits: EXTENSION_LIMITS,
        })
  const types = new Set(extensions.modules.map(({ type }) => type))

  return {
    async validate(job) {
      // Only authorizations older than the setting still have pending challenges.
      if (autoAccept) return { ok: true, isAccepted: true, evidence: [{ step: 'auto_accept' }] }
      if (job.type !== 'extension') return builtIn.validate(job)
      // The authorization is older than the configuration, which no longer has this module.
      if (!modules || !types.has(job.challenge.type)) return noValidator(job)
      const { caa, ...alone } = job
      const verdict = await decideByModule(modules, alone)
      return verdict.ok && caa ? judgedByCaa(verdict, await builtIn.checkCaa(caa)) : verdict
    },
    checkCaa: (job) => builtIn.checkCaa(job),
    checkMailDomains: (job) => builtIn.checkMailDomains(job),
    async close(timeoutMs) {
      await Promise.all([builtIn.close(timeoutMs), modules?.close(timeoutMs)])
    },
  }
}

/**
 * A lost thread counts as a failed try, because this very job may have ended it. Otherwise a module
 * that hangs would be retried for ever instead of `max_retries` times.
 */
async function decideByModule(modules: WorkerPool, job: ExtensionJob): Promise<ValidationVerdict> {
  try {
    return await modules.validate(job)
  } catch (error) {
    if (!(error instanceof WorkerPoolError) || error.code !== 'lost') throw error
    return refused(job, 'broke off', true)
  }
}

function noValidator(job: ExtensionJob): ValidationVerdict {
  return refused(job, 'is not part of this server any more; make a new order', false)
}

function refused({ challenge: { type } }: ExtensionJob, what: string, retryable: boolean): ValidationVerdict {
  const detail = `the validator of ${type} ${what}`
  return {
    ok: false,
    problem: 'serverInternal',
    detail,
    retryable,
    evidence: [{ step: 'extension', type, outcome: what }],
  }
}
