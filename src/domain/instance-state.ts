/** How an instance sees itself, for administrators. Plain data, which may cross threads. */

export interface InstanceState {
  database: 'ok' | 'error' | 'pool_exhausted'
  pool: { max: number; size: number; available: number; waiting: number }
  caBackend: {
    status: 'ok' | 'error' | 'stopped'
    /** In words that anyone may read. */
    reason: string | undefined
    /** Issuers whose keys are in a token. */
    tokens: readonly { issuer: string; status: string; since: string }[]
  }
  /** Undefined when no name server is configured. */
  dnsResolver: 'ok' | 'error' | undefined
  /** Those with which the signer signs now. */
  issuers: readonly { id: string; certificate: Uint8Array; notAfter: Date }[]
}
