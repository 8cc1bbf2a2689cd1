/** Reads the facts of the signer for all its checks. */

import { hasSigner } from '../../config/backends.ts'
import type { Config } from '../../config/schema.ts'
import type { CertificateProfile } from '../../domain/certificate-profile.ts'
import { issuancePolicy } from '../../settings/issuance-settings.ts'
import type { SignerFacts } from '../facts/signer.ts'
import type { Sources } from '../sources.ts'
import type { Verdict } from '../verdict.ts'

export const NARROW =
  'widen it in policy of the issuer in the signer’s configuration and reload the signer (systemctl reload chancery-signer)'

/** A check has no verdict where no certificate is signed here. */
export async function withSigner(sources: Sources, look: (facts: SignerFacts) => readonly Verdict[] | undefined) {
  return hasSigner(sources.config) ? look(await sources.signer()) : undefined
}

export const profilesOf = (config: Config): CertificateProfile[] => [...issuancePolicy(config, []).profiles.values()]
