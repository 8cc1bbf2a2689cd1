/** `chancery ca test-sign`: a test of every backend in use, or of one. */

import { backendsOf, usedBackends } from '../../config/backends.ts'
import type { Config } from '../../config/schema.ts'
import { DEFAULT_PROFILE } from '../../domain/certificate-profile.ts'
import { isSigner } from '../../domain/csr-issuance.ts'
import { createLogger } from '../../ops/logging.ts'
import { UsageError } from '../../shared/command-line.ts'
import { normalizeDnsName } from '../../shared/protocol/identifier.ts'
import { backendsConfig } from '../checked-config.ts'
import { CommandError, type CommonOptions } from '../values.ts'
import { testBackend } from './test-backend.ts'
import { SIGNER_TEST_NAME, TestReport, type TestTarget } from './test-report.ts'
import { testSigner } from './test-signer.ts'

interface TestSignOptions extends CommonOptions {
  issue: boolean
  name: string | undefined
  profile: string | undefined
  backend: string | undefined
  json: boolean
}

/**
 * @returns 0: every backend has passed
 * @throws CommandError with a sentence for each that has not
 */
export async function testSign(options: TestSignOptions): Promise<number> {
  const config = await backendsConfig(options)
  const targets = targetsOf(config, options)
  const name = options.issue ? nameOf(targets, options.name) : undefined
  const { log } = createLogger({ ...config.logging, level: 'CRITICAL' }, 'main')
  const reports: TestReport[] = []
  for (const target of targets) {
    const report = new TestReport(target, options.json)
    reports.push(report)
    const test = isSigner(target.backend)
      ? testSigner(config, target.profile, report, log)
      : testBackend(config, target, name, report, log)
    await test.catch((error: unknown) => report.failed(error))
  }
  if (options.json) console.log(JSON.stringify({ backends: reports }, null, 2))
  const failures = reports.flatMap(({ failure }, i) =>
    failure === undefined ? [] : [targets.length > 1 ? `${targets[i]?.backend}: ${failure}` : failure],
  )
  if (failures.length > 0) throw new CommandError(failures.join('\n'))
  return 0
}

/** Each backend once, with the first profile that asks it; the default one before the others. */
function targetsOf({ ca }: Config, { profile: wanted, backend }: TestSignOptions): TestTarget[] {
  if (wanted !== undefined && !Object.hasOwn(ca.profiles, wanted))
    throw new UsageError(`there is no profile ${wanted}; there are ${Object.keys(ca.profiles).join(', ')}`)
  const profiles = wanted === undefined ? [DEFAULT_PROFILE, ...Object.keys(ca.profiles)] : [wanted]
  const used = wanted === undefined ? usedBackends(ca) : backendsOf(ca, wanted)
  if (backend !== undefined && !used.includes(backend))
    throw new UsageError(`${backend} is no backend in use; there are ${used.join(', ')}`)
  return used
    .filter((name) => backend === undefined || name === backend)
    .map((name) => ({
      backend: name,
      profile: profiles.find((profile) => backendsOf(ca, profile).includes(name)) ?? DEFAULT_PROFILE,
    }))
}

/** An upstream ACME service asks the name for a proof. */
function nameOf(targets: readonly TestTarget[], given: string | undefined): string {
  if (given === undefined) {
    if (targets.some(({ backend }) => backend === 'acme_proxy'))
      throw new UsageError('acme_proxy issues only for a name that its challenge handler can prove: give --name')
    return SIGNER_TEST_NAME
  }
  const normal = normalizeDnsName(given)
  if (!normal.ok) throw new UsageError(`--name ${given}: ${normal.reason}`)
  return normal.value
}
