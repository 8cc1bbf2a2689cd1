/** What clients have to know of the server they load; plain data. */

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
  /** Of the challenge that clients choose. */
  challengeType: string
  /** End of the names that are ordered. */
  domainSuffix: string
  /** Scenario `renewal`: reads of renewal information before each renewal. */
  renewalReads: number
  /** Of every account, such as `mailto:ops@example.com`: notifications are recorded for accounts with one. */
  contact: string | undefined
}
