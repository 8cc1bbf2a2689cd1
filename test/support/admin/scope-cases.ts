/** For each endpoint that a registrar may call, a request about objects of one team. By operation id. */

import { NOBODY } from '../bound.ts'
import { NO_CREDENTIAL } from './administrative-requests.ts'

/** Objects of one team. */
export interface TeamObjects {
  tag: string
  account: string
  order: string
  authorization: string
  serial: string
  fingerprint: string
  credential: string
  /** Without accounts; it may be revoked. */
  spare: string
  /** One of the certificate's names. */
  name: string
}

export interface ScopeCase {
  /** `one`: it is there or not. `list`: rows are there or not. `self`: about the user alone. `many`: says how many it changed.
   * `parts`: always there, with what the registrar may see. */
  kind: 'one' | 'list' | 'self' | 'many' | 'settings' | 'parts'
  /** A body that means all, for a case of `many` that takes one. */
  everything?: object
  path: (of: TeamObjects) => string
  body?: (of: TeamObjects) => object
  /** The list without filters; for lists. */
  all?: string
  /** The status for the own team, or of a request about the user; 200 when absent. */
  status?: number
}

const one = (path: ScopeCase['path'], body?: ScopeCase['body']): ScopeCase => ({
  kind: 'one',
  path,
  ...(body && { body }),
})
const list = (all: string, query: (of: TeamObjects) => string): ScopeCase => ({
  kind: 'list',
  all,
  path: (of) => `${all}?${query(of)}`,
})
const parts = (path: ScopeCase['path']): ScopeCase => ({ kind: 'parts', path })
const self = (path: string, body?: object): ScopeCase => ({
  kind: 'self',
  path: () => path,
  ...(body && { body: () => body }),
})
const many = (path: string): ScopeCase => ({
  kind: 'many',
  path: () => path,
  body: ({ serial }) => ({ filter: { serial_numbers: [serial] } }),
  everything: { filter: { all: true } },
})

const mute = (body: ScopeCase['body']): ScopeCase => ({
  kind: 'many',
  path: () => '/at-risk/mutes',
  ...(body && { body }),
})

let kids = 0

export const SCOPE_CASES: Readonly<Record<string, ScopeCase>> = {
  getMe: self('/me'),
  getSettings: { kind: 'settings', path: () => '/settings' },
  listApprovals: self('/approvals'),
  countApprovals: self('/approvals/count'),
  getApproval: { ...self(`/approvals/${NOBODY}`), status: 404 },
  getApprovalRequest: { ...self(`/approvals/${NOBODY}/request`), status: 404 },
  withdraw: { ...self(`/approvals/${NOBODY}/withdraw`), status: 404 },
  collectApproved: { ...self(`/approvals/${NOBODY}/collect`), status: 404 },
  getOnboarding: { kind: 'settings', path: () => '/onboarding' },
  listAccounts: list('/accounts', () => ''),
  getAccount: one(({ account }) => `/accounts/${account}`),
  updateAccount: one(
    ({ account }) => `/accounts/${account}`,
    () => ({ label: 'ours' }),
  ),
  listFailures: list('/failures', () => ''),
  listFailureCauses: list('/failures/causes', () => ''),
  listFailuresOfAccount: one(({ account }) => `/accounts/${account}/failures`),
  getCsrProfileOfAccount: one(({ account }) => `/accounts/${account}/csr-profile`),
  listIdentifiersOfAccount: one(({ account }) => `/accounts/${account}/allowed-identifiers`),
  listOrders: list('/orders', ({ account }) => `account_id=${account}`),
  search: parts(({ name }) => `/search?q=${name}`),
  getNameHistory: parts(({ name }) => `/names/${name}`),
  getOrder: one(({ order }) => `/orders/${order}`),
  getAuthorization: one(({ authorization }) => `/authorizations/${authorization}`),
  listCertificates: list('/certificates', ({ account }) => `account_id=${account}`),
  getCertificate: one(({ serial }) => `/certificates/${serial}`),
  getCertificateByFingerprint: one(({ fingerprint }) => `/certificates/by-fingerprint/${fingerprint}`),
  getCertificatePem: one(({ serial }) => `/certificates/${serial}/pem`),
  getCertificateChain: one(({ serial }) => `/certificates/${serial}/chain`),
  getCertificateDetails: one(({ serial }) => `/certificates/${serial}/details`),
  listAtRisk: list('/at-risk', ({ account }) => `account_id=${account}`),
  muteAtRisk: mute(({ serial }) => ({ serial_numbers: [serial], reason: 'known' })),
  unmuteAtRisk: mute(({ serial }) => ({ serial_numbers: [serial] })),
  notifyAtRisk: {
    kind: 'many',
    path: () => '/at-risk/notify',
    body: ({ serial }) => ({ serial_numbers: [serial], dry_run: true }),
  },
  listEabCredentials: list('/eab', () => ''),
  getEabCredential: one(({ credential }) => `/eab/${credential}`),
  updateEabCredential: one(
    ({ credential }) => `/eab/${credential}`,
    ({ tag }) => ({ tags: [tag] }),
  ),
  getCascadeOfEab: one(({ credential }) => `/eab/${credential}/cascade`),
  listIdentifiersOfEab: one(({ credential }) => `/eab/${credential}/allowed-identifiers`),
  getCsrProfileOfEab: one(({ credential }) => `/eab/${credential}/csr-profile`),
  adviseRenewal: many('/renewals'),
  clearRenewals: many('/renewals'),
  createEabCredential: {
    ...one(
      () => '/eab',
      ({ tag }) => ({ kid: `by a registrar ${++kids}`, tags: [tag] }),
    ),
    status: 201,
  },
  revokeEabCredential: one(({ spare }) => `/eab/${spare}/revoke`),
  revokeCertificate: one(
    ({ serial }) => `/certificates/${serial}/revoke`,
    () => ({ reason: 4 }),
  ),
  listMySessions: self('/me/sessions'),
  getConfirmOptions: self('/auth/confirm/options', {}),
  confirmSignIn: { ...self('/auth/confirm', { password: 'wrong' }), status: 403 },
  listMyPasskeys: self('/me/passkeys'),
  getRegistrationOptions: self('/me/passkeys/options', {}),
  addPasskey: { ...self('/me/passkeys', { name: 'new', credential: NO_CREDENTIAL }), status: 401 },
  renamePasskey: { ...self(`/me/passkeys/${NOBODY}`, { name: 'new' }), status: 404 },
  removePasskey: { ...self(`/me/passkeys/${NOBODY}`), status: 404 },
  endMySession: { ...self(`/me/sessions/${NOBODY}`), status: 404 },
  updateMe: self('/me', { email: 'new@example.com' }),
  changeMyPassword: {
    ...self('/me/password', { current_password: 'wrong', new_password: 'seven quiet lamps below' }),
    status: 403,
  },
  resetMyPassword: { ...self('/me/reset-password', { current_password: 'wrong' }), status: 403 },
  logout: self('/auth/logout'),
  logoutEverywhere: self('/auth/logout-everywhere'),
}
