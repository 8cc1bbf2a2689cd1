/**
 * The tasks of the pool's threads: each takes one job, restores its shared settings, and returns
 * one answer.
 */

import { workerData } from 'node:worker_threads'
import { checkCaa as check } from './caa.ts'
import type { BuiltInJob, CaaFinding, CaaJob, MailDomainFinding, MailDomainJob, ValidationVerdict } from './job.ts'
import { checkMailDomains as checkMail } from './mail-domain.ts'
import { withShared } from './shared-settings.ts'
import validate from './validate.ts'

export default function task(job: BuiltInJob): Promise<ValidationVerdict> {
  return validate(withShared(job, workerData))
}

export function checkCaa(job: CaaJob): Promise<CaaFinding[]> {
  return check(withShared(job, workerData))
}

export function checkMailDomains(job: MailDomainJob): Promise<MailDomainFinding[]> {
  return checkMail(withShared(job, workerData))
}
