/** Plain data that tells clients about the server they load. */

export interface Target {
  directoryUrl: string
  /** PEM of the roots to trust for TLS; undefined trusts the system's. */
  caCertificates: string | undefined
  /** Accept any TLS certificate. */
  insecure: boolean
  /** PEM of the root that issued chains must lead to; undefined when unknown. */
  rootCertificate: string | undefined
  /** Longest silence while a request is under way, and longest wait for a validation. */
  timeoutMs: number
  /** The type of challenge that clients choose. */
  challengeType: string
  /** End of the names that are ordered. */
  domainSuffix: string
  /** Scenario `renewal`: reads of renewal information before each renewal. */
  renewalReads: number
  /**
   * Contact of every account, such as `mailto:ops@example.com`: the server records notifications only for accounts with
   * one.
   */
  contact: string | undefined
}
