/** Credentials of external account binding: their HMAC keys are sealed under the secret of this service. */

import { plural } from '../shared/lib/plural.ts'
import type { SecretBox } from '../shared/lib/secret-box.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import type { Database, Statement } from '../store/database.ts'
import { handOn } from './accounts.ts'
import type { ImportedCredential, Outcome, PageContext, WritePage } from './model.ts'

const MAX_KID_LENGTH = 255
/** RFC 7518 §3.2: a key is at least as long as the hash of HS256. */
const MIN_KEY_OCTETS = 32

export function createCredentialWriter(): WritePage<ImportedCredential> {
  const known = new Map<string, KnownCredential>()
  return (page, context) => {
    // A dry run finds in no table what it would have written.
    if (!context.isDryRun) known.clear()
    return writeCredentials(page, context, known)
  }
}

async function writeCredentials(
  page: readonly ImportedCredential[],
  { queries, box, isDryRun, foreignKids }: PageContext,
  known: Map<string, KnownCredential>,
): Promise<Outcome[]> {
  const kids = page.map(({ kid }) => kid)
  for (const row of await findCredentials(queries, kids)) if (!known.has(row.kid)) known.set(row.kid, row)
  const fresh: NewCredential[] = []
  const closed: string[] = []
  const outcomes = page.map((credential): Outcome => {
    const { kid } = credential
    const fault = faultOf(credential)
    if (fault) return { name: kid.slice(0, MAX_KID_LENGTH), skipped: fault }
    if (!box)
      return {
        name: kid,
        skipped: 'there is no secret to store its key under; set acme.eab_key_file or admin_api.token_secret',
      }
    const here = known.get(kid)
    if (here) return reconcile(credential, here, box, closed)
    const row = rowOf(credential, box)
    fresh.push(row)
    known.set(kid, { ...row })
    return 'new'
  })
  for (const [index, outcome] of outcomes.entries()) if (typeof outcome === 'object') foreignKids.add(page[index]!.kid)
  if (!isDryRun) {
    if (fresh.length > 0) await insertCredentials(queries, fresh)
    if (closed.length > 0) await closeCredentials(queries, closed)
  }
  return outcomes
}

function faultOf({ kid, hmacKey }: ImportedCredential): string | undefined {
  if (kid === '' || kid.length > MAX_KID_LENGTH) return `its kid is empty or has more than ${MAX_KID_LENGTH} characters`
  if (hmacKey.length >= MIN_KEY_OCTETS) return undefined
  return `its key has ${plural(hmacKey.length, 'octet')}; an HMAC key has ${MIN_KEY_OCTETS} at least (RFC 7518 §3.2)`
}

function reconcile(credential: ImportedCredential, here: KnownCredential, box: SecretBox, closed: string[]): Outcome {
  const key = box.open(here.sealedKey, here.id)
  if (!key?.equals(credential.hmacKey)) return { name: credential.kid, skipped: 'another credential has its kid here' }
  if (here.revoked || !credential.revokedAt) return 'known'
  closed.push(here.id)
  here.revoked = true
  return 'changed'
}

function rowOf(
  { kid, label, hmacKey, createdAt, isUsed, revokedAt, boundThumbprint }: ImportedCredential,
  box: SecretBox,
): NewCredential {
  const id = uuidv7(createdAt.getTime())
  return {
    id,
    kid,
    label: label?.slice(0, MAX_KID_LENGTH) || undefined,
    sealedKey: box.seal(hmacKey, id),
    createdAt,
    used: isUsed === true || boundThumbprint !== undefined,
    revoked: revokedAt !== undefined,
  }
}

/** Binds accounts to credentials that name them; nothing for credentials whose accounts name them. */
export const linkCredentials: WritePage<ImportedCredential> = async (page, { queries, foreignKids }) => {
  const bindings = page.flatMap(({ kid, boundThumbprint: thumbprint }) =>
    thumbprint && !foreignKids.has(kid) ? [{ kid, thumbprint }] : [],
  )
  const linked = bindings.length > 0 ? await linkAccounts(queries, bindings) : 0
  return Array<Outcome>(linked).fill('changed')
}

/* SQL. */

type Queries = Pick<Database, 'query'>

interface KnownCredential {
  id: string
  kid: string
  sealedKey: Buffer
  revoked: boolean
}

const FIND_CREDENTIALS: Statement = {
  name: 'import-find-credentials',
  text: 'SELECT id, kid, hmac_key AS "sealedKey", revoked FROM eab_credentials WHERE kid = ANY ($1::text[])',
}

export const findCredentials = (tx: Queries, kids: readonly string[]) =>
  tx.query<KnownCredential>(FIND_CREDENTIALS, [kids])

interface NewCredential {
  id: string
  kid: string
  label: string | undefined
  sealedKey: Buffer
  createdAt: Date
  used: boolean
  revoked: boolean
}

const INSERT_CREDENTIALS: Statement = {
  name: 'import-insert-credentials',
  text: `
    INSERT INTO eab_credentials (id, kid, label, hmac_key, created_at, used, revoked)
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::timestamptz[], $6::boolean[], $7::boolean[])`,
}

async function insertCredentials(tx: Queries, credentials: readonly NewCredential[]): Promise<void> {
  await tx.query(INSERT_CREDENTIALS, [
    credentials.map((one) => one.id),
    credentials.map((one) => one.kid),
    credentials.map((one) => one.label ?? null),
    credentials.map((one) => one.sealedKey),
    credentials.map((one) => one.createdAt),
    credentials.map((one) => one.used),
    credentials.map((one) => one.revoked),
  ])
}

const REVOKE_CREDENTIALS: Statement = {
  name: 'import-revoke-credentials',
  text: 'UPDATE eab_credentials SET revoked = true WHERE id = ANY ($1::uuid[])',
}

/** Their accounts follow the former server by themselves. */
async function closeCredentials(tx: Queries, ids: readonly string[]): Promise<void> {
  await tx.query(REVOKE_CREDENTIALS, [ids])
}

const LINK: Statement = {
  name: 'import-link-accounts',
  text: `
    WITH linked AS (
      UPDATE accounts a SET eab_credential_id = c.id
        FROM unnest($1::text[], $2::text[]) AS i (kid, thumbprint) JOIN eab_credentials c ON c.kid = i.kid
       WHERE a.thumbprint = i.thumbprint AND a.eab_credential_id IS NULL
      RETURNING a.id, c.id AS credential_id
    ), used AS (
      UPDATE eab_credentials c SET uses = c.uses + 1, used = true, used_at = coalesce(c.used_at, now()), account_id = l.id
        FROM linked l WHERE c.id = l.credential_id
    )
    SELECT id FROM linked`,
}

/** Binds accounts to the credentials that name them. */
async function linkAccounts(tx: Queries, bindings: readonly { kid: string; thumbprint: string }[]): Promise<number> {
  const rows = await tx.query<{ id: string }>(LINK, [
    bindings.map(({ kid }) => kid),
    bindings.map(({ thumbprint }) => thumbprint),
  ])
  await handOn(
    tx,
    rows.map(({ id }) => id),
  )
  return rows.length
}
