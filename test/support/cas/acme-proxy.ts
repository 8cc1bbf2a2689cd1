/** The backend `acme_proxy` alone, with its account in memory, as tests of an upstream want it. */

import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import {
  type AcmeProxyOptions,
  type AcmeProxySettings,
  createAcmeProxyBackend,
} from '../../../src/ca/acme-proxy/acme-proxy-backend.ts'
import type { ChallengeHandler } from '../../../src/ca/acme-proxy/challenge-handler.ts'
import type { UpstreamAccountStore } from '../../../src/ca/acme-proxy/upstream-account.ts'
import type { CsrBackend } from '../../../src/ca/csr-backend.ts'
import type { StoredUpstreamAccount } from '../../../src/domain/records.ts'
import { createSecretBox } from '../../../src/shared/lib/secret-box.ts'
import { WAIT_MS } from '../patience.ts'

export interface TestProxy {
  backend: CsrBackend
  accounts: Map<string, StoredUpstreamAccount>
  notes: { message: string; facts: object }[]
}

export interface TestProxyOptions {
  directoryUrl: string
  caFile?: string
  handler: ChallengeHandler
  settings?: Partial<AcmeProxySettings>
  options?: Partial<AcmeProxyOptions>
}

export function testProxy({ directoryUrl, caFile, handler, settings, options }: TestProxyOptions): TestProxy {
  const accounts = new Map<string, StoredUpstreamAccount>()
  const notes: TestProxy['notes'] = []
  const backend = createAcmeProxyBackend({
    settings: {
      account: { directoryUrl, email: 'pki@upstream.test' },
      binding: undefined,
      http: { verify: true, extraRoots: caFile === undefined ? undefined : readFileSync(caFile, 'utf8') },
      challengeType: 'http-01',
      orderTimeoutMs: 2 * WAIT_MS,
      readyTimeoutMs: WAIT_MS,
      maxRetries: 5,
      maxOrders: 64,
      ...settings,
    },
    handler,
    accounts: memoryAccounts(accounts),
    box: createSecretBox(randomBytes(32), 'test'),
    readFormerKey: () => undefined,
    note: (message, facts) => void notes.push({ message, facts }),
    ...options,
  })
  return { backend, accounts, notes }
}

export function memoryAccounts(accounts: Map<string, StoredUpstreamAccount>): UpstreamAccountStore {
  return {
    find: async ({ directoryUrl, email }) => accounts.get(`${directoryUrl} ${email}`),
    async add({ directoryUrl, email }, id, sealedKey) {
      const name = `${directoryUrl} ${email}`
      const account = accounts.get(name) ?? { id, sealedKey, url: undefined }
      accounts.set(name, account)
      return account
    },
    async saveUrl(id, url) {
      const known = [...accounts.values()].find((account) => account.id === id)
      if (known) known.url = url
    },
  }
}
