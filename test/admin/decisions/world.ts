/** A database with users, credentials, accounts, profiles and certificates, and what acts on copies of it. */

import { createHash } from 'node:crypto'
import { insertApproval, keepResult } from '../../../src/admin/approvals/approval-store.ts'
import { Approvals, type ApprovedAct } from '../../../src/admin/approvals/approvals.ts'
import { AuditLog, type Note, type Work } from '../../../src/admin/audit/audit-log.ts'
import type { AdminContext } from '../../../src/admin/context.ts'
import { insertCredential } from '../../../src/admin/eab/credential-store.ts'
import { OPERATIONS } from '../../../src/admin/endpoints.ts'
import {
  changeNames,
  NAME_OF_ACCOUNT,
  NAME_OF_CREDENTIAL,
  PROFILE_OF_ACCOUNT,
  PROFILE_OF_CREDENTIAL,
} from '../../../src/admin/grants/grants.ts'
import { HistoryIndexes } from '../../../src/admin/profiles/history-indexes.ts'
import { createProfile } from '../../../src/admin/profiles/profile-endpoints.ts'
import { BulkRevocations } from '../../../src/admin/revocations/bulk-revocations.ts'
import { insertPasskey } from '../../../src/admin/users/passkey-store.ts'
import { Passkeys } from '../../../src/admin/users/passkeys.ts'
import { HASHING_HERE, PasswordHasher } from '../../../src/admin/users/passwords.ts'
import { insertSession } from '../../../src/admin/users/sessions.ts'
import { hashApiToken, SignIn } from '../../../src/admin/users/sign-in.ts'
import { createUser } from '../../../src/admin/users/users.ts'
import type { Act, Decision } from '../../../src/domain/decision.ts'
import { createSecretBox } from '../../../src/shared/lib/secret-box.ts'
import { uuidv7 } from '../../../src/shared/lib/uuid.ts'
import { hashSpki } from '../../../src/shared/pki/algorithms.ts'
import { parseCertificate } from '../../../src/shared/pki/certificate.ts'
import { openDatabase } from '../../../src/store/database.ts'
import { createEabStore } from '../../../src/store/eab-store.ts'
import { openCheckedDatabase } from '../../../src/store/slonik.ts'
import { aCertificate, aNewAccount, aReadyOrder, inHours, newId, settingsFor, storesOn } from '../../store/support.ts'
import { TOKEN_SECRET } from '../../support/admin.ts'
import { loopbackCertificate } from '../../support/certificates.ts'
import { copyOf, rowsIn, type TestDatabase, testDatabase } from '../../support/database.ts'
import { publicJwk } from '../../support/jwk.ts'
import { freshP256Key } from '../../support/keys.ts'

/** Keeps what a record has beside an entry. */
class CatchingLog extends AuditLog {
  readonly caught: { action: string; beside: object }[] = []

  override transaction<T>(...[author, work, before]: Parameters<AuditLog['transaction']>): Promise<T> {
    const catching: Work<T> = (tx, note) => {
      const noting: Note = (action, details, target, beside = {}) => {
        this.caught.push({ action, beside })
        note(action, details, target, beside)
      }
      return (work as Work<T>)(tx, noting)
    }
    return super.transaction(author, catching, before)
  }
}

const HASH_LENGTH = 64
const BOX = createSecretBox('a secret of a test', 'approvals')

/** An account's key as the service stores it. */
export function aKey() {
  const { publicKey } = freshP256Key()
  const { crv, kty, x, y } = publicJwk(publicKey)
  const jwk = JSON.stringify({ crv, kty, x, y })
  const spki = publicKey.export({ type: 'spki', format: 'der' })
  const spki_sha256 = createHash('sha256').update(spki).digest('hex')
  return { jwk, thumbprint: createHash('sha256').update(jwk).digest('base64url'), spki_sha256 }
}

export type At = Awaited<ReturnType<typeof open>>

async function open(database: TestDatabase) {
  const settings = settingsFor(database.connection, 2)
  const [db, pool] = [await openCheckedDatabase(settings), openDatabase(settings, () => undefined)]
  const audit = new CatchingLog(db, Buffer.alloc(HASH_LENGTH, 1))
  const passwords = new PasswordHasher(HASHING_HERE)
  const signIn = new SignIn({
    db,
    audit,
    passwords,
    tokenSecret: TOKEN_SECRET,
    tokenExpirySeconds: 3_600,
    recentSignInSeconds: 0,
    requireSecondFactor: false,
  })
  const operations = {
    rolesOf: () => ['admin'] as const,
    describe: async () => undefined,
    async perform(_operation: string, _input: unknown, { audit: log, maker }: ApprovedAct) {
      await log.transaction(maker, async () => undefined)
      return { secret: undefined }
    },
  }
  const approvals = new Approvals({ db, audit, operations, expireAfterHours: 1, box: () => BOX })
  const ignore = () => undefined
  const bulkRevocations = new BulkRevocations({
    db,
    audit,
    events: { revoked: ignore, failed: ignore, notLooked: ignore },
    noteRevocations: async () => undefined,
    confirmAbove: Number.POSITIVE_INFINITY,
    approvalAbove: undefined,
  })
  const context = {
    db,
    audit,
    passwords,
    policy: { passwordLength: 20, approvals: {} },
    events: { credentials: { accountsRevoked: ignore }, certificates: { revoked: ignore } },
    historyIndexes: new HistoryIndexes(db, undefined),
    noteRevocations: async () => undefined,
    signIn,
    approvals,
    bulkRevocations,
    passkeys: new Passkeys({ audit, isRequired: false } as never),
  } as unknown as AdminContext
  const sql = <R extends object>(text: string, values: unknown[] = []) =>
    rowsIn<R & Record<string, unknown>>(database, text, values)
  return {
    database,
    db,
    pool,
    audit,
    signIn,
    approvals,
    bulkRevocations,
    sql,
    context,
    stores: storesOn(pool),
    eab: createEabStore(pool),
    /** One row, by a statement that finds one. */
    one: async <R extends object = Record<string, unknown>>(text: string, ...values: unknown[]) =>
      (await sql<R>(text, values))[0],
    async end() {
      await bulkRevocations.stop()
      await pool.close()
      await db.end()
    },
  }
}

export type World = Awaited<ReturnType<typeof makeWorld>>

export async function makeWorld() {
  const database = await testDatabase()
  const at = await open(database)
  const { db, audit, stores, context } = at
  const ops = { userId: undefined, username: 'ops', role: 'admin', ipAddress: undefined } as const

  const user = (username: string, role: 'admin' | 'operator' | 'registrar', scope: string[] = []) =>
    createUser(context as never, ops, { username, email: `${username}@example.com`, role, scope })
  const [alice, bob, rita] = [
    await user('alice', 'admin'),
    await user('bob', 'operator'),
    await user('rita', 'registrar', ['a', 'b']),
  ]
  const admin = { userId: alice.id, username: 'alice', role: 'admin', ipAddress: '192.0.2.1' } as const
  const session = newId()
  const facts = {
    ipAddress: '192.0.2.2',
    methods: ['password'] as const,
    authenticatedAt: new Date(),
    expiresAt: inHours(1),
  }
  await insertSession(db, { id: session, userId: bob.id, ...facts })
  const token = { id: newId(), hash: hashApiToken('a token of bob') }
  await at.sql(
    "INSERT INTO admin_api_tokens (id, name, role, token_hash, created_by) VALUES ($1, 'robot', 'operator', $2, $3)",
    [token.id, token.hash, bob.id],
  )
  const passkey = newId()
  await insertPasskey(db, {
    id: passkey,
    user_id: bob.id,
    credential_id: 'credential',
    public_key: Buffer.alloc(8),
    counter: 0,
    transports: [],
    name: 'key',
  })

  const credential = async (kid: string) => {
    const limits = { profiles: undefined, preapprovedNetworks: undefined, expiresAt: undefined, maxUses: undefined }
    const wanted = { id: newId(), kid, label: undefined, sealedKey: Buffer.alloc(61), createdBy: undefined }
    const made = await insertCredential(db, { ...wanted, ...limits, allowedNetworks: undefined, tags: ['a', 'b'] })
    return made?.id ?? ''
  }
  const [team, lab] = [await credential('team'), await credential('lab')]
  const [boundKey, key] = [aKey(), aKey()]
  const bound = aNewAccount(boundKey)
  const binding = { protected: 'aa', payload: 'bb', signature: 'cc' }
  await at.eab.register({ account: bound, credentialId: team, binding, reusable: true })
  const { account } = await stores.accounts.create(aNewAccount({ ...key, contacts: ['mailto:old@example.com'] }))
  await at.sql("UPDATE accounts SET tags = '{a,b}' WHERE id = $1", [account.id])

  await changeNames(NAME_OF_CREDENTIAL, audit, ops, team, { allow: ['one.example'] })
  await changeNames(NAME_OF_ACCOUNT, audit, ops, account.id, { allow: ['two.example'] })
  const nameId = async (value: string) =>
    (await at.one<{ id: string }>('SELECT id FROM allowed_identifiers WHERE identifier_value = $1', value))?.id ?? ''
  const approved = await aReadyOrder(stores, { accountId: bound.id, keyVersion: 1 }, {}, ['one.example'])
  await at.sql(`UPDATE authorizations SET approved = true, evidence = '{"type": "pre-approval"}' WHERE id = $1`, [
    approved.authorizationIds[0],
  ])
  const requester = { accountId: account.id, keyVersion: 1 }
  const order = await aReadyOrder(stores, requester, {}, ['two.example'])

  const profile = async (name: string, data: object) =>
    (await createProfile(context, ops, { name, description: undefined, data })).id
  const [tight, loose] = [await profile('tight', { san_maximum: 1 }), await profile('loose', { san_maximum: 5 })]
  await PROFILE_OF_CREDENTIAL.give(audit, ops, tight, team)
  await PROFILE_OF_ACCOUNT.give(audit, ops, loose, bound.id)

  const { cert } = await loopbackCertificate()
  const der = Buffer.from(cert.replaceAll(/-----[^-]+-----|\s/g, ''), 'base64')
  const spki = hashSpki(parseCertificate(der).tbs.spki)
  const certified = { intent: { spkiSha256: spki }, issued: { der, notAfter: inHours(1_000) } }
  const first = await aCertificate(stores, requester, { ...certified, names: ['first.example'] })
  const second = await aCertificate(stores, requester, {
    intent: certified.intent,
    issued: { notAfter: inHours(1_000) },
    names: ['second.example'],
  })

  const approval = async () => {
    const id = newId()
    await insertApproval(db, {
      id,
      act: 'user_changes',
      operation: 'createUser',
      summary: 'Create the admin mallory',
      facts: [],
      reason: 'a ticket',
      input: { params: {}, query: {}, body: {} } as never,
      maker: { ...ops, role: 'operator', userId: bob.id, username: 'bob' },
      expiresAt: inHours(1),
    })
    return id
  }
  const [waiting, done] = [await approval(), await approval()]
  await at.sql("UPDATE admin_approvals SET decision = 'approved' WHERE id = $1", [done])
  await keepResult(db, done, BOX.seal(Buffer.from('{"password": "half"}'), done))
  const made = { one: await nameId('one.example'), two: await nameId('two.example') }
  await at.end()
  return {
    admin,
    bob,
    rita,
    session,
    token,
    passkey,
    team,
    lab,
    bound: bound.id,
    account: account.id,
    requester,
    key,
    boundKey,
    names: made,
    preApproved: approved.authorizationIds[0] ?? '',
    authorization: order.authorizationIds[0] ?? '',
    profiles: { tight, loose },
    certificates: {
      first: { id: first.intent.certificateId, serial: first.intent.serialNumber.toString('hex') },
      second: { id: second.intent.certificateId },
      spki,
    },
    approvals: { waiting, done },
    drop: () => database.drop(),
    /** As it was when the world was made. */
    async copy() {
      const copied = await copyOf(database)
      const open_ = await open(copied)
      return {
        ...open_,
        async end() {
          await open_.end()
          await copied.drop()
        },
      }
    },
  }
}

/** An endpoint, without HTTP. */
export async function call(
  { context }: Pick<At, 'context'>,
  author: object,
  operation: keyof typeof OPERATIONS,
  { params = {}, body = undefined }: { params?: object; body?: unknown } = {},
): Promise<void> {
  const handle = OPERATIONS[operation].handle as (request: object, context: AdminContext) => Promise<unknown>
  await handle({ params, body, query: {}, author, address: '192.0.2.1', userAgent: undefined, requestId: 'r' }, context)
}

/** The newest entry with this action as its record has it. */
export async function decisionOf({ sql, audit }: At, act: Act, by: string, condition = 'true'): Promise<Decision> {
  const [row] = await sql<{
    id: string
    at: Date
    details: object
    user_id: string | null
    target_user_id: string | null
  }>(
    `SELECT id, created_at AS at, details, user_id, target_user_id FROM admin_audit_log WHERE action = $1 AND ${condition}
      ORDER BY sequence DESC LIMIT 1`,
    [act],
  )
  if (!row) throw new Error(`no entry of ${act}`)
  const beside = audit.caught.findLast(({ action }) => action === act)?.beside
  const { id, at, details, user_id, target_user_id } = row
  return JSON.parse(
    JSON.stringify({
      id,
      at,
      act,
      by,
      details: { ...details, ...beside },
      entry: { sequence: 1, mac: '', id, user_id, target_user_id, ip_address: null },
    }),
  )
}

/** What a client has decided over ACME. */
export const overAcme = (act: Act, details: Record<string, unknown>): Decision => ({
  id: uuidv7(Date.now()),
  at: new Date().toISOString(),
  act,
  by: 'an account',
  details,
})

/** Of all rows of all tables. */
export async function digestOf({ sql }: At): Promise<Record<string, unknown>> {
  const tables = await sql<{ name: string }>(
    "SELECT quote_ident(tablename) AS name FROM pg_tables WHERE schemaname = 'public'",
  )
  const digests = tables.map(
    ({ name }) => `(SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM ${name} t) AS ${name}`,
  )
  const [row] = await sql(`SELECT ${digests.join(', ')}`)
  return row ?? {}
}
