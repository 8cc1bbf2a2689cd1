/** For each endpoint that changes something, a request that an administrator may send. */

import { NOBODY } from './bound.ts'

export interface AdministrativeRequest {
  path: string
  body?: object
}

export const NO_CREDENTIAL = {
  id: 'x',
  rawId: 'x',
  type: 'public-key',
  response: { clientDataJSON: 'x', attestationObject: 'x' },
}
const KEY = 'ab'.repeat(32)
const filter = { issued_before: '2001-01-01' }
const profile = { name: 'a profile', profile_data: { san_maximum: 3 } }

/** The requests by operation id, in the order of the manual. Their objects need not be there, unless a path has `{profile_id}`. */
export const ADMINISTRATIVE_REQUESTS: Readonly<Record<string, AdministrativeRequest>> = {
  logout: { path: '/auth/logout' },
  confirmSignIn: { path: '/auth/confirm', body: { password: 'x' } },
  logoutEverywhere: { path: '/auth/logout-everywhere' },
  addPasskey: { path: '/me/passkeys', body: { name: 'new', credential: NO_CREDENTIAL } },
  renamePasskey: { path: `/me/passkeys/${NOBODY}`, body: { name: 'new' } },
  removePasskey: { path: `/me/passkeys/${NOBODY}` },
  endMySession: { path: `/me/sessions/${NOBODY}` },
  updateMe: { path: '/me', body: { email: 'new@example.com' } },
  changeMyPassword: { path: '/me/password', body: { current_password: 'x', new_password: 'vacant orchid tram 61' } },
  endSessionOfUser: { path: `/users/${NOBODY}/sessions/${NOBODY}` },
  createUser: { path: '/users', body: { username: 'new', email: 'new@example.com' } },
  updateUser: { path: `/users/${NOBODY}`, body: { enabled: false } },
  deleteUser: { path: `/users/${NOBODY}` },
  resetMyPassword: { path: '/me/reset-password', body: { current_password: 'x' } },
  resetPassword: { path: `/users/${NOBODY}/reset-password` },
  unlockUser: { path: `/users/${NOBODY}/unlock` },
  unlockAddress: { path: '/users/unlock-address', body: { address: '192.0.2.7' } },
  createToken: { path: '/tokens', body: { name: 'new' } },
  revokeToken: { path: `/tokens/${NOBODY}` },
  approve: { path: `/approvals/${NOBODY}/approve` },
  reject: { path: `/approvals/${NOBODY}/reject`, body: { reason: 'no' } },
  withdraw: { path: `/approvals/${NOBODY}/withdraw` },
  collectApproved: { path: `/approvals/${NOBODY}/collect` },
  exportAuditLog: { path: '/audit-log/export' },
  acceptLostDecisions: { path: '/lost-decisions/accept' },
  bulkRevoke: { path: '/certificates/bulk-revoke', body: { filter } },
  cancelBulkRevocation: { path: `/bulk-revocations/${NOBODY}/cancel` },
  setMaintenance: { path: '/maintenance', body: { enabled: true } },
  setSigning: { path: '/signing', body: { stopped: true } },
  rebuildCrl: { path: '/crl/rebuild' },
  retryDeadLetter: { path: `/events/dead/${NOBODY}/retry` },
  retryDeadLetters: { path: '/events/dead/retry', body: { ids: [NOBODY] } },
  giveUpBackendRevocation: { path: `/backend-revocations/${NOBODY}` },
  retryNotifications: { path: '/notifications/retry' },
  sendTestMail: { path: '/notifications/test' },
  purgeNotifications: { path: '/notifications/purge' },
  createEabCredential: { path: '/eab', body: { kid: 'new' } },
  revokeEabCredential: { path: `/eab/${NOBODY}/revoke` },
  changeIdentifiersOfEab: { path: `/eab/${NOBODY}/allowed-identifiers`, body: { allow: ['new.test'] } },
  addIdentifierToEab: { path: `/eab/${NOBODY}/allowed-identifiers/${NOBODY}` },
  removeIdentifierFromEab: { path: `/eab/${NOBODY}/allowed-identifiers/${NOBODY}` },
  assignCsrProfileToEab: { path: `/eab/${NOBODY}/csr-profile/${NOBODY}` },
  unassignCsrProfileFromEab: { path: `/eab/${NOBODY}/csr-profile/${NOBODY}` },
  createAllowedIdentifier: { path: '/allowed-identifiers', body: { type: 'dns', value: 'new.test' } },
  deleteAllowedIdentifier: { path: `/allowed-identifiers/${NOBODY}` },
  addAccountToIdentifier: { path: `/allowed-identifiers/${NOBODY}/accounts/${NOBODY}` },
  removeAccountFromIdentifier: { path: `/allowed-identifiers/${NOBODY}/accounts/${NOBODY}` },
  changeIdentifiersOfAccount: { path: `/accounts/${NOBODY}/allowed-identifiers`, body: { allow: ['new.test'] } },
  createCsrProfile: { path: '/csr-profiles', body: profile },
  replaceCsrProfile: { path: '/csr-profiles/{profile_id}', body: profile },
  deleteCsrProfile: { path: `/csr-profiles/${NOBODY}` },
  assignCsrProfile: { path: `/csr-profiles/${NOBODY}/accounts/${NOBODY}` },
  unassignCsrProfile: { path: `/csr-profiles/${NOBODY}/accounts/${NOBODY}` },
  updateEabCredential: { path: `/eab/${NOBODY}`, body: { tags: ['new'] } },
  updateAccount: { path: `/accounts/${NOBODY}`, body: { label: 'new' } },
  deactivateAccount: { path: `/accounts/${NOBODY}/deactivate` },
  acceptTerms: { path: '/terms/accept', body: { all: true } },
  revokeCertificate: { path: '/certificates/abcd/revoke', body: { reason: 4 } },
  revokeFromCrl: { path: '/certificates/revoke-from-crl', body: { crl: 'MAA=' } },
  beginIncident: {
    path: '/incidents',
    body: { filter: { spki_sha256: KEY }, block_key: true, confirm_count: 0 },
  },
  adviseRenewal: { path: '/renewals', body: { filter } },
  clearRenewals: { path: '/renewals', body: { filter } },
  muteAtRisk: { path: '/at-risk/mutes', body: { serial_numbers: ['7a'], reason: 'known' } },
  unmuteAtRisk: { path: '/at-risk/mutes', body: { serial_numbers: ['7a'] } },
  notifyAtRisk: { path: '/at-risk/notify', body: { serial_numbers: ['7a'] } },
  blockKey: { path: '/blocked-keys', body: { spki_sha256: KEY } },
  unblockKey: { path: `/blocked-keys/${KEY}` },
}
