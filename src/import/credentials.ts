/** Credentials of external account binding: their HMAC keys are sealed under the secret of this service. */

import { plural } from '../shared/lib/plural.ts'
import type { SecretBox } from '../shared/lib/secret-box.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import { closeCredentials, findCredentials, insertCredentials, type KnownCredential } from './credential-import.ts'
import type { ImportedCredential, Outcome } from './model.ts'
import type { PageContext, WritePage } from './page.ts'

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
  const fresh: ReturnType<typeof rowOf>[] = []
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
    if (here) return meet(credential, here, box, closed)
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

function meet(credential: ImportedCredential, here: KnownCredential, box: SecretBox, closed: string[]): Outcome {
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
) {
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
