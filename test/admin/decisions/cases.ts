/** Each act that restricts: how it is done, and the behaviour that has to come back. */

import { createProfile } from '../../../src/admin/profiles/profile-endpoints.ts'
import { revokeBySerial } from '../../../src/admin/revocations/certificate-revocations.ts'
import { deleteSessionsOf, endAccess, findApiToken, findSession } from '../../../src/admin/users/sessions.ts'
import { resetSecondFactor } from '../../../src/admin/users/users.ts'
import type { Decision, RestrictingAct } from '../../../src/domain/decision.ts'
import { compromisedKeys } from '../../../src/services/compromised-keys.ts'
import { createCompromisedKeyStore } from '../../../src/store/compromised-key-store.ts'
import { queriesOf } from '../../../src/store/slonik.ts'
import { createServerSettings } from '../../../src/store/switch-store.ts'
import { aNewAccount } from '../../store/support.ts'
import { type At, aKey, call, decisionOf, overAcme, type World } from './world.ts'

export interface Case {
  /** After the act's name. */
  does: string
  /** @returns the decision of a client; an administrator's is in the audit log */
  act(at: At, world: World): Promise<unknown>
  /** False before the act. @param decision undefined before it */
  holds(at: At, world: World, decision: Decision | undefined): Promise<boolean>
  /** Asked before the act, it would do the act itself. */
  isAct?: true
  /** `restored` when absent. */
  outcome?: 'partly' | 'lost'
}

const CLIENT = { ipAddress: '192.0.2.9' }
const signsIn = (at: At, { bob }: World) =>
  at.signIn
    .login('bob', bob.password, CLIENT, async () => false)
    .then(
      () => true,
      () => false,
    )
const isSignedOut = async (at: At, { session }: World) => (await findSession(at.db, session)) === null
const isRevoked = async (at: At, { token }: World) => !(await findApiToken(at.db, token.hash))
const passkeys = async (at: At, { bob }: World) =>
  (await at.sql('SELECT FROM admin_passkeys WHERE user_id = $1', [bob.id])).length
const userOf = (at: At, id: string) =>
  at.one<{ email: string; role: string; scope: string[]; enabled: boolean }>(
    'SELECT * FROM admin_users WHERE id = $1',
    id,
  )
const statusOf = async (at: At, table: 'accounts' | 'authorizations', id: string) =>
  (await at.one<{ status: string }>(`SELECT status FROM ${table} WHERE id = $1`, id))?.status
const mostNamesOf = async (at: At, account: string) =>
  (
    await at.one<{ most: number }>(
      `SELECT (profile_data->>'san_maximum')::integer AS most
         FROM account_csr_profiles a JOIN csr_profiles p ON p.id = a.csr_profile_id WHERE a.account_id = $1`,
      account,
    )
  )?.most
const tagsOf = async (at: At, table: 'accounts' | 'eab_credentials', id: string) =>
  (await at.one<{ tags: string[] }>(`SELECT tags FROM ${table} WHERE id = $1`, id))?.tags.join()
const isCertificateRevoked = async (at: At, id: string) =>
  (await at.sql('SELECT FROM certificates WHERE id = $1 AND revoked_at IS NOT NULL', [id])).length > 0
const isBlocked = (at: At, key: Buffer | string) =>
  at.stores.certificates.isKeyBlocked(typeof key === 'string' ? Buffer.from(key, 'hex') : key)
const mayOrder = async (at: At, account: string, name: string) =>
  (
    await at.sql('SELECT FROM account_allowed_identifiers WHERE account_id = $1 AND identifier_id = $2', [
      account,
      name,
    ])
  ).length > 0
const bobOf = ({ bob, session }: World) => ({
  userId: bob.id,
  username: 'bob',
  role: 'operator',
  ipAddress: '192.0.2.2',
  sessionId: session,
})
const patchBob = (body: object) => (at: At, world: World) =>
  call(at, world.admin, 'updateUser', { params: { user_id: world.bob.id }, body })
const switchIs = async (at: At, name: 'maintenance' | 'stopSigning') =>
  (await createServerSettings(queriesOf(at.db)).switches())[name].on
const decide =
  (act: 'approve' | 'reject' | 'withdraw') =>
  (at: At, { admin, bob, approvals }: World) => {
    if (act === 'approve') return at.approvals.approve(admin, approvals.waiting)
    if (act === 'reject') return at.approvals.reject(admin, approvals.waiting, 'no')
    return at.approvals.withdraw({ ...admin, userId: bob.id, username: 'bob' }, approvals.waiting)
  }
const isDecided = (at: At, world: World) =>
  decide('approve')(at, world).then(
    () => false,
    () => true,
  )
const profileBody = (name: string, profile_data: object) => ({ name, description: null, profile_data })

async function revoke(at: At, { admin, certificates }: World, reason: number): Promise<void> {
  const events = at.context.events.certificates
  await revokeBySerial({ audit: at.audit, note: async () => undefined, events }, admin, certificates.first.serial, {
    reason,
  })
}

export const CASES: Readonly<Record<RestrictingAct, readonly Case[]>> = {
  'signing.stop': [
    {
      does: 'keeps signing stopped',
      act: (at, { admin }) => call(at, admin, 'setSigning', { body: { stopped: true, reason: 'a suspicion' } }),
      holds: (at) => switchIs(at, 'stopSigning'),
    },
  ],
  'maintenance.set': [
    {
      does: 'refuses new orders',
      act: (at, { admin }) => call(at, admin, 'setMaintenance', { body: { enabled: true } }),
      holds: (at) => switchIs(at, 'maintenance'),
    },
  ],
  'key.block': [
    {
      does: 'refuses the key, and revokes its account',
      act: (at, { admin, key: { spki_sha256 } }) => call(at, admin, 'blockKey', { body: { spki_sha256 } }),
      holds: async (at, { account, key }) =>
        (await isBlocked(at, key.spki_sha256)) && (await statusOf(at, 'accounts', account)) === 'revoked',
    },
  ],
  'account.deactivate': [
    {
      does: 'deactivates the account with its authorizations',
      act: (at, { admin, account }) => call(at, admin, 'deactivateAccount', { params: { account_id: account } }),
      holds: async (at, { account, authorization }) =>
        (await statusOf(at, 'accounts', account)) === 'deactivated' &&
        (await statusOf(at, 'authorizations', authorization)) === 'deactivated',
    },
  ],
  'account.update': [
    {
      does: 'takes the account from a registrar, and names it',
      act: (at, { admin, account }) =>
        call(at, admin, 'updateAccount', { params: { account_id: account }, body: { tags: ['b'], label: 'Team B' } }),
      holds: async (at, { account }) => (await tagsOf(at, 'accounts', account)) === 'b',
    },
    {
      does: 'shows it to no other one',
      act: (at, { admin, account }) =>
        call(at, admin, 'updateAccount', { params: { account_id: account }, body: { tags: ['b', 'c'] } }),
      holds: async (at, { account }) => (await tagsOf(at, 'accounts', account))?.startsWith('b') === true,
      outcome: 'partly',
    },
  ],
  'eab.revoke': [
    {
      does: 'lets the credential register nobody, and revokes its account',
      act: (at, { admin, team }) => call(at, admin, 'revokeEabCredential', { params: { cred_id: team } }),
      async holds(at, { team, bound }) {
        const binding = { protected: 'aa', payload: 'bb', signature: 'cc' }
        const account = aNewAccount(aKey())
        const isRegistered = await at.eab.register({ account, credentialId: team, binding, reusable: true })
        return !isRegistered && (await statusOf(at, 'accounts', bound)) === 'revoked'
      },
    },
  ],
  'eab.update': [
    {
      does: 'takes the credential from a registrar',
      act: (at, { admin, team }) =>
        call(at, admin, 'updateEabCredential', { params: { cred_id: team }, body: { tags: ['b'] } }),
      holds: async (at, { team }) => (await tagsOf(at, 'eab_credentials', team)) === 'b',
    },
  ],
  'eab.remove_identifier': [
    {
      does: 'takes the name from its accounts, and the approval',
      act: (at, { admin, team, names }) =>
        call(at, admin, 'removeIdentifierFromEab', { params: { cred_id: team, identifier_id: names.one } }),
      holds: async (at, { bound, names, preApproved }) =>
        !(await mayOrder(at, bound, names.one)) && (await statusOf(at, 'authorizations', preApproved)) === 'revoked',
    },
  ],
  'identifier.delete': [
    {
      does: 'takes the name from everybody, and the approval',
      act: (at, { admin, names }) =>
        call(at, admin, 'deleteAllowedIdentifier', { params: { identifier_id: names.one } }),
      holds: async (at, { bound, names, preApproved }) =>
        !(await mayOrder(at, bound, names.one)) && (await statusOf(at, 'authorizations', preApproved)) === 'revoked',
    },
  ],
  'identifier.remove_account': [
    {
      does: 'takes the name from the account',
      act: (at, { admin, account, names }) =>
        call(at, admin, 'removeAccountFromIdentifier', { params: { account_id: account, identifier_id: names.two } }),
      holds: async (at, { account, names }) => !(await mayOrder(at, account, names.two)),
    },
  ],
  'csr_profile.create': [
    {
      does: 'has the profile again, so that it can be assigned',
      async act(at, { admin }) {
        await createProfile(at.context, admin, { name: 'new', description: 'of a team', data: { san_maximum: 2 } })
      },
      holds: async (at) =>
        (await at.sql(`SELECT FROM csr_profiles WHERE name = 'new' AND profile_data = '{"san_maximum": 2}'`)).length ===
        1,
    },
  ],
  'csr_profile.update': [
    {
      does: 'refuses as much',
      act: (at, { admin, profiles }) =>
        call(at, admin, 'replaceCsrProfile', {
          params: { profile_id: profiles.loose },
          body: profileBody('loose', { san_maximum: 2 }),
        }),
      holds: async (at, { bound }) => (await mostNamesOf(at, bound)) === 2,
    },
    {
      does: 'allows nothing new',
      act: (at, { admin, profiles }) =>
        call(at, admin, 'replaceCsrProfile', {
          params: { profile_id: profiles.loose },
          body: profileBody('loose', { san_types: ['DNS_NAME'] }),
        }),
      holds: async (at, { profiles }) =>
        (await at.sql("SELECT FROM csr_profiles WHERE id = $1 AND profile_data ? 'san_types'", [profiles.loose]))
          .length === 1,
      outcome: 'partly',
    },
  ],
  'csr_profile.delete': [
    {
      does: 'leaves the account with the tighter one of its credential',
      act: (at, { admin, profiles }) => call(at, admin, 'deleteCsrProfile', { params: { profile_id: profiles.loose } }),
      holds: async (at, { bound }) => (await mostNamesOf(at, bound)) === 1,
      outcome: 'partly',
    },
  ],
  'csr_profile.assign': [
    {
      does: 'binds the account to the profile',
      act: (at, { admin, profiles, account }) =>
        call(at, admin, 'assignCsrProfile', { params: { profile_id: profiles.tight, account_id: account } }),
      holds: async (at, { account }) => (await mostNamesOf(at, account)) === 1,
    },
    {
      does: 'puts the tighter one in the place of another',
      act: (at, { admin, profiles, bound }) =>
        call(at, admin, 'assignCsrProfile', { params: { profile_id: profiles.tight, account_id: bound } }),
      holds: async (at, { bound }) => (await mostNamesOf(at, bound)) === 1,
    },
  ],
  'csr_profile.unassign': [
    {
      does: 'leaves the account with the tighter one of its credential',
      act: (at, { admin, profiles, bound }) =>
        call(at, admin, 'unassignCsrProfile', { params: { profile_id: profiles.loose, account_id: bound } }),
      holds: async (at, { bound }) => (await mostNamesOf(at, bound)) === 1,
    },
  ],
  'eab.assign_csr_profile': [
    {
      does: 'binds the credential to the profile',
      act: (at, { admin, profiles, lab }) =>
        call(at, admin, 'assignCsrProfileToEab', { params: { profile_id: profiles.tight, cred_id: lab } }),
      holds: async (at, { lab, profiles }) =>
        (
          await at.sql('SELECT FROM eab_csr_profiles WHERE eab_credential_id = $1 AND csr_profile_id = $2', [
            lab,
            profiles.tight,
          ])
        ).length === 1,
    },
  ],
  'certificate.revoke': [
    {
      does: 'revokes the certificate, whichever CA has signed it',
      act: (at, world) => revoke(at, world, 4),
      holds: (at, { certificates }) => isCertificateRevoked(at, certificates.first.id),
    },
    {
      does: 'blocks its key',
      act: (at, world) => revoke(at, world, 1),
      holds: (at, { certificates }) => isBlocked(at, certificates.spki),
    },
  ],
  'certificate.bulk_revoke': [
    {
      does: 'goes on',
      async act(at, { admin, account }) {
        const wanted = { filter: { account_id: account }, reason: 4, confirmCount: undefined }
        const { id } = await at.bulkRevocations.begin(admin, wanted)
        // The entry of the end is newer.
        await at.bulkRevocations.wait(id, 60_000)
        return decisionOf(at, 'certificate.bulk_revoke', 'alice', "details->>'phase' = 'begun'")
      },
      async holds(at, { certificates }, decision) {
        const id = decision?.details['job_id']
        if (typeof id !== 'string') return false
        at.bulkRevocations.take(id)
        const { status } = await at.bulkRevocations.wait(id, 60_000)
        return status === 'done' && isCertificateRevoked(at, certificates.second.id)
      },
    },
  ],
  'approval.approve': [
    {
      does: 'is decided once',
      act: async (at, world) => void (await decide('approve')(at, world)),
      holds: isDecided,
      isAct: true,
    },
  ],
  'approval.reject': [
    {
      does: 'is decided once',
      act: async (at, world) => void (await decide('reject')(at, world)),
      holds: isDecided,
      isAct: true,
    },
  ],
  'approval.withdraw': [
    {
      does: 'is decided once',
      act: async (at, world) => void (await decide('withdraw')(at, world)),
      holds: isDecided,
      isAct: true,
    },
  ],
  'approval.collect': [
    {
      does: 'shows the reply once',
      async act(at, { admin, bob, approvals }) {
        await at.approvals.collect({ ...admin, userId: bob.id }, approvals.done)
      },
      holds: (at, { admin, bob, approvals }) =>
        at.approvals.collect({ ...admin, userId: bob.id }, approvals.done).then(
          () => false,
          () => true,
        ),
      isAct: true,
    },
  ],
  'auth.login_failed': [
    {
      does: 'ends what somebody had who has lost the groups',
      act: (at, { bob }) =>
        at.audit.transaction({ userId: bob.id, ipAddress: '192.0.2.2' }, async (tx, note) => {
          const ended_sessions = await deleteSessionsOf(tx, bob.id)
          note('auth.login_failed', { by: 'oidc', ended_sessions, revoked_tokens: await endAccess(tx, bob.id) })
        }),
      holds: async (at, world) => (await isSignedOut(at, world)) && isRevoked(at, world),
    },
  ],
  'auth.logout': [
    {
      does: 'ends the session',
      async act(at, world) {
        await at.signIn.logout(bobOf(world) as never)
      },
      holds: isSignedOut,
    },
    {
      does: 'ends all sessions of the user',
      async act(at, world) {
        await at.signIn.logoutEverywhere(bobOf(world) as never)
      },
      holds: isSignedOut,
    },
  ],
  'user.update': [
    {
      does: 'lets a disabled user neither sign in nor go on',
      act: patchBob({ enabled: false }),
      holds: async (at, world) => !(await signsIn(at, world)) && (await isSignedOut(at, world)) && isRevoked(at, world),
    },
    {
      does: 'gives the weaker role',
      act: patchBob({ role: 'auditor' }),
      holds: async (at, { bob }) => (await userOf(at, bob.id))?.role === 'auditor',
    },
    {
      does: 'sends alarms to the new address',
      act: patchBob({ email: 'new@example.com' }),
      holds: async (at, { bob }) => (await userOf(at, bob.id))?.email === 'new@example.com',
    },
    {
      does: 'gives no stronger role',
      act: patchBob({ role: 'admin', enabled: false }),
      holds: async (at, { bob }) => (await userOf(at, bob.id))?.enabled === false,
      outcome: 'partly',
    },
    {
      does: 'leaves a registrar the tags of both',
      act: (at, { admin, rita }) =>
        call(at, admin, 'updateUser', { params: { user_id: rita.id }, body: { scope: ['b', 'c'] } }),
      holds: async (at, { rita }) => (await userOf(at, rita.id))?.scope[0] === 'b',
      outcome: 'partly',
    },
  ],
  'user.delete': [
    {
      does: 'lets the user sign in no more',
      act: (at, { admin, bob }) => call(at, admin, 'deleteUser', { params: { user_id: bob.id } }),
      holds: async (at, world) => !(await signsIn(at, world)) && (await isSignedOut(at, world)) && isRevoked(at, world),
    },
  ],
  'user.reset_password': [
    {
      does: 'takes the former password no more, and ends all access',
      act: (at, { admin, bob }) => call(at, admin, 'resetPassword', { params: { user_id: bob.id } }),
      holds: async (at, world) => !(await signsIn(at, world)) && (await isSignedOut(at, world)) && isRevoked(at, world),
      outcome: 'partly',
    },
  ],
  'user.change_password': [
    {
      does: 'takes the former password no more, and keeps tokens',
      act: (at, world) =>
        call(at, bobOf(world), 'changeMyPassword', {
          body: { current_password: world.bob.password, new_password: 'vacant orchid tram 61' },
        }),
      holds: async (at, world) => !(await signsIn(at, world)) && !(await isRevoked(at, world)),
      outcome: 'partly',
    },
  ],
  'user.end_session': [
    {
      does: 'ends the session',
      act: (at, { admin, bob, session }) =>
        call(at, admin, 'endSessionOfUser', { params: { user_id: bob.id, session_id: session } }),
      holds: isSignedOut,
    },
  ],
  'user.remove_passkey': [
    {
      does: 'knows the passkey no more',
      act: (at, world) => call(at, bobOf(world), 'removePasskey', { params: { passkey_id: world.passkey } }),
      holds: async (at, world) => (await passkeys(at, world)) === 0,
    },
  ],
  'user.reset_second_factor': [
    {
      does: 'knows no passkey of the user, and ends all access',
      async act(at, { admin }) {
        await resetSecondFactor(at.audit, admin, 'bob')
      },
      holds: async (at, world) =>
        (await passkeys(at, world)) === 0 && (await isSignedOut(at, world)) && isRevoked(at, world),
    },
  ],
  'token.revoke': [
    {
      does: 'takes the token no more',
      act: (at, { admin, token }) => call(at, admin, 'revokeToken', { params: { token_id: token.id } }),
      holds: isRevoked,
    },
  ],
  'acme.deactivate_account': [
    {
      does: 'deactivates the account',
      async act(at, { requester, account }) {
        await at.stores.accounts.deactivate(requester)
        return overAcme('acme.deactivate_account', { account_id: account })
      },
      holds: async (at, { account }) => (await statusOf(at, 'accounts', account)) === 'deactivated',
    },
  ],
  'acme.change_key': [
    {
      does: 'takes the new key, and the old one no more',
      act: changeKey,
      holds: async (at, { account, key }) =>
        (await at.stores.accounts.findByThumbprint(key.thumbprint)) === undefined &&
        (await at.one<{ n: number }>('SELECT key_version AS n FROM accounts WHERE id = $1', account))?.n === 2,
    },
  ],
  'acme.update_contacts': [
    {
      does: 'writes to the new address',
      async act(at, { requester, account }) {
        const contacts = ['mailto:new@example.com']
        await at.stores.accounts.updateContacts(requester, contacts)
        const row = await at.one<{ at: string }>('SELECT updated_at::text AS at FROM accounts WHERE id = $1', account)
        return overAcme('acme.update_contacts', { account_id: account, contacts, changed_at: row?.at })
      },
      holds: async (at, { account }) =>
        (await at.stores.accounts.find(account))?.contacts[0] === 'mailto:new@example.com',
    },
  ],
  'acme.deactivate_authorization': [
    {
      does: 'deactivates the authorization',
      async act(at, { requester, account, authorization }) {
        await at.stores.authorizations.deactivate(requester, authorization)
        return overAcme('acme.deactivate_authorization', { account_id: account, authorization_id: authorization })
      },
      holds: async (at, { authorization }) => (await statusOf(at, 'authorizations', authorization)) === 'deactivated',
    },
  ],
  'acme.prove_compromise': [
    {
      does: 'revokes what else has the key',
      async act(at, { certificates: { first, spki } }) {
        const proof = { certificateId: first.id, reason: 1, blockedKey: spki, isProved: true, requester: undefined }
        await at.stores.certificates.revoke(proof)
        return overAcme('acme.prove_compromise', { spki_sha256: spki.toString('hex') })
      },
      async holds(at, { certificates }) {
        const parts = {
          store: createCompromisedKeyStore(at.pool),
          note: async () => undefined,
          onRevoked: () => undefined,
        }
        await compromisedKeys(parts)()
        return (await isBlocked(at, certificates.spki)) && isCertificateRevoked(at, certificates.second.id)
      },
    },
  ],
  'acme.revoke': [
    {
      does: 'revokes the certificate',
      async act(at, { certificates: { first } }) {
        const revocation = { certificateId: first.id, reason: 4, blockedKey: undefined, requester: undefined }
        await at.stores.certificates.revoke(revocation)
        const row = await at.one<object>(
          `SELECT encode(serial_number, 'hex') AS serial_number, encode(issuer_fingerprint, 'hex') AS issuer_fingerprint,
                  not_after FROM certificates WHERE id = $1`,
          first.id,
        )
        return overAcme('acme.revoke', { certificate_id: first.id, reason: 4, ...row })
      },
      holds: (at, { certificates: { first } }) => isCertificateRevoked(at, first.id),
    },
  ],
}

export async function changeKey(at: At, { requester, account }: World): Promise<Decision> {
  const { jwk, thumbprint } = aKey()
  await at.stores.accounts.changeKey(requester, { jwk, thumbprint })
  return overAcme('acme.change_key', { account_id: account, key_version: 2, jwk, thumbprint })
}
