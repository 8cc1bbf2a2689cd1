/** Signature algorithms of certificates and certification requests: names, OIDs and AlgorithmIdentifier bytes. */

/** Java-style names: the spelling that CSR profiles and the configuration use (doc 2, `authorized_signature_algorithms`). */
export type SignatureAlgorithm =
  | 'SHA256withRSA'
  | 'SHA384withRSA'
  | 'SHA512withRSA'
  | 'SHA256withECDSA'
  | 'SHA384withECDSA'
  | 'SHA512withECDSA'
  | 'Ed25519'
