/** Adds remote perspectives to the validators, when `challenges.perspectives` lists any. */

import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Config } from '../config/schema.ts'
import { beginAtZero, type Metrics } from '../ops/metrics.ts'
import { corroborationMs } from '../settings/validation.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import type { ValidationPools } from '../validation/pools.ts'
import { Corroboration } from './corroboration.ts'
import { createRemotePerspective, type RemotePerspective } from './remote-perspective.ts'

interface CorroboratedValidators extends Pick<ValidationPools, 'validate' | 'checkCaa'> {
  stop(): void
}

/** @throws Error when a perspective's file cannot be read */
export async function corroborated(
  pools: ValidationPools,
  config: Config,
  metrics: Metrics,
): Promise<CorroboratedValidators> {
  const { perspectives: configured, corroboration: rule, auto_accept } = config.challenges
  // auto_accept checks nothing here, so there is nothing to corroborate.
  if (configured.length === 0 || auto_accept) return { ...pools, stop() {} }

  const perspectives = await Promise.all(configured.map(remotePerspective))
  for (const { name: perspective } of configured)
    for (const check of ['dcv', 'caa']) beginAtZero(metrics.perspectiveChecks, { perspective, check, result: 'failed' })
  const corroboration = new Corroboration({
    perspectives,
    policy: { maxNonCorroborations: rule.max_non_corroborations ?? undefined, minRegions: rule.min_regions },
    timeoutMs: corroborationMs(config),
    newTraceId: () => uuidv7(Date.now()),
    onAnswer: (perspective, check, result) => metrics.perspectiveChecks.inc({ perspective, check, result }),
  })
  return {
    validate: async (job) => corroboration.verdict(job, await pools.validate(job)),
    checkCaa: async (job) => corroboration.findings(job, await pools.checkCaa(job)),
    stop() {
      for (const perspective of perspectives) perspective.close()
    },
  }
}

async function remotePerspective(settings: Config['challenges']['perspectives'][number]): Promise<RemotePerspective> {
  const { name, url, region, token, ca_path, client_cert_path, client_key_path } = settings
  const text = async (file: string) => {
    try {
      return await readFile(path.resolve(file), 'utf8')
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      throw new Error(`the perspective ${name}: ${file} cannot be read (${code})`, { cause })
    }
  }
  return createRemotePerspective({
    name,
    url,
    region: region ?? undefined,
    token: token ?? undefined,
    ca: ca_path === null ? undefined : await text(ca_path),
    clientCertificate:
      client_cert_path === null || client_key_path === null
        ? undefined
        : { cert: await text(client_cert_path), key: await text(client_key_path) },
  })
}
