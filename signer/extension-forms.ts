/**
 * Extensions must equal the bytes that this program would write. The daemon does not read other
 * content (reasons, further points, qualifiers), so a compromised front could get it signed.
 */

import type { TbsCertificate } from '../src/shared/pki/certificate.ts'
import { DerReader } from '../src/shared/pki/der.ts'
import { type DerWriter, encodeDer } from '../src/shared/pki/der-writer.ts'
import {
  type Extension,
  readExtensions,
  writeAuthorityInfoAccess,
  writeAuthorityKeyIdentifier,
  writeCertificatePolicies,
  writeCrlDistributionPoints,
  writeDistributionPointName,
  writeExtension,
} from '../src/shared/pki/extensions.ts'
import { CRL_EXTENSION, EXTENSION } from '../src/shared/pki/oids.ts'
import type { CrlExtensions } from '../src/shared/pki/tbs-cert-list-reader.ts'

interface Form<T> {
  /** Writes the extension again from the parsed values. */
  write(writer: DerWriter, read: T): void
  /** The refusal when the bytes differ. */
  refusal: string
}

const KEY_IDENTIFIER_ONLY = 'authorityKeyIdentifier holds more than a key identifier'

const CERTIFICATE_FORMS: ReadonlyMap<string, Form<TbsCertificate>> = new Map<string, Form<TbsCertificate>>([
  [
    EXTENSION.crlDistributionPoints,
    {
      write: (writer, { crlDistributionPointUrls: urls }) => writeCrlDistributionPoints(writer, urls),
      refusal: 'crlDistributionPoints is not one point that is named by URLs alone',
    },
  ],
  [
    EXTENSION.authorityInfoAccess,
    {
      write: (writer, { ocspUrls, caIssuersUrls }) => writeAuthorityInfoAccess(writer, ocspUrls, caIssuersUrls),
      refusal: 'authorityInfoAccess names something else than URLs of OCSP responders, then of issuers',
    },
  ],
  [
    EXTENSION.certificatePolicies,
    {
      write: (writer, { policyOids }) => writeCertificatePolicies(writer, policyOids),
      refusal: 'certificatePolicies has qualifiers',
    },
  ],
  [
    EXTENSION.authorityKeyIdentifier,
    {
      write: (writer, { authorityKeyIdentifier }) => writeAuthorityKeyIdentifier(writer, authorityKeyIdentifier!),
      refusal: KEY_IDENTIFIER_ONLY,
    },
  ],
])

const CRL_FORMS: ReadonlyMap<string, Form<CrlExtensions>> = new Map<string, Form<CrlExtensions>>([
  [
    CRL_EXTENSION.authorityKeyIdentifier,
    {
      write: (writer, { authorityKeyIdentifier }) => writeAuthorityKeyIdentifier(writer, authorityKeyIdentifier!),
      refusal: KEY_IDENTIFIER_ONLY,
    },
  ],
  [
    CRL_EXTENSION.issuingDistributionPoint,
    {
      write: (writer, { issuingDistributionPoint: point }) =>
        writeExtension(writer, CRL_EXTENSION.issuingDistributionPoint, true, () =>
          writer.sequence(() => writeDistributionPointName(writer, point!.urls)),
        ),
      refusal: 'issuingDistributionPoint is not named by URLs alone',
    },
  ],
])

/** @param tbs with the authorityKeyIdentifier of the issuer */
export const checkCertificateForms = (tbs: TbsCertificate): string | undefined =>
  checkForms(CERTIFICATE_FORMS, tbs.extensions, tbs)

/** @param read with the authorityKeyIdentifier of the issuer */
export const checkCrlForms = (read: CrlExtensions): string | undefined => checkForms(CRL_FORMS, read.extensions, read)

function checkForms<T>(
  forms: ReadonlyMap<string, Form<T>>,
  extensions: readonly Extension[],
  read: T,
): string | undefined {
  for (const { oid, value } of extensions) {
    const form = forms.get(oid)
    if (!form) continue
    const [written] = readExtensions(new DerReader(encodeDer((writer) => form.write(writer, read))))
    if (!written?.value.equals(value)) return form.refusal
  }
  return undefined
}
