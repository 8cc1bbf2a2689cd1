/** The signer: whether it answers and can sign, and for how long its issuers can. */

import type { CaHealth, CaIssuer } from '../../ca/backend.ts'
import { PART_THEM, SHARED } from '../../ca/signer-records.ts'
import { hasSigner } from '../../config/backends.ts'
import type { Config } from '../../config/schema.ts'
import type { CertificateProfile } from '../../domain/certificate-profile.ts'
import { issuancePolicy } from '../../settings/issuance-settings.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import { othersAtSigner, type SignerFacts } from '../facts/signer.ts'
import type { Check, Sources } from '../sources.ts'
import { CannotTell, failure, ok, orOk, unknown, type Verdict, warning } from '../verdict.ts'

export const SIGNER: readonly Check[] = [
  {
    id: 'signer.reachable',
    title: 'The signer answers, and shares the secret of the service',
    async look(sources) {
      if (!hasSigner(sources.config)) return undefined
      try {
        const { version, issuers } = await sources.signer()
        return ok(`release ${version}, with ${issuers.map(({ id }) => id).join(', ')}`)
      } catch (error) {
        if (/cannot be read|EACCES/i.test(messageOf(error))) throw error
        return failure(
          messageOf(error),
          'systemctl status chancery-signer; the same secret_file for both programs; docs/operations/signer.md',
        )
      }
    },
  },
  {
    id: 'signer.signing',
    title: 'The signer can sign: every token is there, and nothing has failed',
    look: (sources) =>
      withSigner(sources, ({ health }) =>
        orOk(
          [
            !health.signing &&
              failure(
                'the signer signs nothing',
                'make room on the disk of its audit chain, and it goes on by itself; else its log says why (journalctl -u chancery-signer), and it has to be started again',
              ),
            ...health.tokens.filter(({ status }) => status !== 'ready').map(judgeToken),
          ],
          'it says so',
        ),
      ),
  },
  {
    id: 'signer.test-sign',
    title: 'Every issuer makes a test signature (--test-sign)',
    look: (sources) =>
      withSigner(sources, ({ signed }) =>
        signed?.map(({ issuer, durationMs }) => ok(`${issuer} signed in ${durationMs.toFixed(1)} ms`)),
      ),
  },
  {
    id: 'signer.database',
    title: 'No other database uses the signer',
    async look(sources) {
      if (!hasSigner(sources.config)) return undefined
      const database = await sources.database()
      const others = await othersAtSigner(sources.config, database).catch((error) => {
        throw error instanceof CannotTell ? error : new CannotTell(messageOf(error))
      })
      if (others === undefined) return unknown('the signer is of an earlier release and does not know')
      return others === '' ? ok('it says so') : failure(`${SHARED}: ${others}`, PART_THEM)
    },
  },
  {
    id: 'signer.issuers',
    title: 'Every issuer is valid for as long as certificates are',
    look: (sources) =>
      withSigner(sources, ({ issuers }) =>
        issuers.map((issuer) => judgeIssuer(issuer, sources.config.ca.max_validity_days, new Date())),
      ),
  },
  {
    id: 'signer.profiles',
    title: 'The issuers that profiles name are there',
    look: (sources) =>
      withSigner(sources, ({ issuers }) => {
        const there = issuers.map(({ id }) => id)
        const found = profilesOf(sources.config).flatMap(({ name, issuerIds }) =>
          issuerIds
            .filter((id) => !there.includes(id))
            .map((id) =>
              failure(
                `ca.profiles.${name}.issuer names ${id}, and the signer has ${there.join(', ')}`,
                'correct the key, or add the issuer to the signer’s configuration',
              ),
            ),
        )
        return orOk(found, `${profilesOf(sources.config).length} profiles`)
      }),
  },
]

/** Judges a token that is not ready. The reason is the signer's, which has looked into the token. */
export const judgeToken = ({ issuer, status, since, reason }: CaHealth['tokens'][number]): Verdict =>
  failure(
    `the signer cannot use the key of ${issuer} since ${since}: ${reason ?? `its token is ${status}`}`,
    status === 'refused'
      ? 'correct the PIN (pin_file), then start the signer again'
      : 'see that the token can be reached, and that its key is that of the certificate (docs/operations/signer.md)',
  )

const DAY_MS = 86_400_000
const WARNING_DAYS = 90
const FAILURE_DAYS = 14

export function judgeIssuer(
  { id, notAfter, notBefore }: Pick<CaIssuer, 'id' | 'notAfter' | 'notBefore'>,
  longestDays: number,
  now: Date,
): Verdict {
  const days = Math.floor((notAfter.getTime() - now.getTime()) / DAY_MS)
  const renew =
    'make a new issuer, and let the signer take it by a reload (docs/operations/signer.md, "A new issuer without a pause")'
  if (days < 0) return failure(`the certificate of the issuer ${id} has expired, at ${notAfter.toISOString()}`, renew)
  if (notBefore > now)
    return failure(
      `the certificate of the issuer ${id} is not valid before ${notBefore.toISOString()}`,
      'compare the clock of this host with that of the CA above',
    )
  if (days < FAILURE_DAYS) return failure(`the certificate of the issuer ${id} ends in ${days} days`, renew)
  if (days < WARNING_DAYS) return warning(`the certificate of the issuer ${id} ends in ${days} days`, renew)
  if (days < longestDays)
    return ok(`${id} ends in ${days} days; certificates of ${longestDays} days (ca.max_validity_days) end with it`)
  return ok(`${id} ends in ${days} days`)
}

export const NARROW =
  'widen it in policy of the issuer in the signer’s configuration and reload the signer (systemctl reload chancery-signer)'

/** A check has no verdict where no certificate is signed here. */
export async function withSigner(sources: Sources, look: (facts: SignerFacts) => readonly Verdict[] | undefined) {
  return hasSigner(sources.config) ? look(await sources.signer()) : undefined
}

export const profilesOf = (config: Config): CertificateProfile[] => [...issuancePolicy(config, []).profiles.values()]
