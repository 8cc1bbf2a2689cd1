/** Two services, the second of which gets its certificates from the first by ACME and http-01. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { startChallengeFolder } from './http01-responder.ts'
import { startTestService, type TestService } from './service.ts'

export interface ChainedServices {
  upstream: TestService
  /** Also for what a test writes. */
  folder: string
  /** The folder that is published for challenges of the upstream. */
  challenges: string
  service: TestService
  dispose(): Promise<void>
}

export interface ChainedOptions {
  /** The root that the second service trusts; the upstream's own by default. */
  anchorPem?: string
  /** One front thread a service. */
  fronts?: 1
}

/** `ca` of a service that answers http-01 of another ACME service by files below this folder. */
export const behindAcmeService = (directory_url: string, folder: string, more: object) => ({
  backend: 'acme_proxy',
  acme_proxy: {
    directory_url,
    email: 'pki@chained.test',
    storage_path: path.join(folder, 'storage'),
    challenge_type: 'http-01',
    challenge_handler: 'file_http',
    challenge_handler_config: { webroot: folder },
    ...more,
  },
})

export async function startChainedServices({ anchorPem, ...threads }: ChainedOptions = {}): Promise<ChainedServices> {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-chained-'))
  const challenges = path.join(folder, '.well-known', 'acme-challenge')
  mkdirSync(challenges, { recursive: true })
  const anchor = path.join(folder, 'anchor.pem')
  if (anchorPem !== undefined) writeFileSync(anchor, anchorPem)
  const upstream = await startTestService(threads)
  const closeWebServer = await startChallengeFolder(upstream.http01Port, challenges)
  const service = await startTestService({
    ...threads,
    config: {
      ca: behindAcmeService(upstream.directoryUrl, folder, {
        trust_anchors: [anchorPem === undefined ? upstream.ca.root : anchor],
      }),
    },
  })
  return {
    upstream,
    service,
    folder,
    challenges,
    async dispose() {
      await service.dispose()
      await closeWebServer()
      await upstream.dispose()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
