/** What a starter of another server is told and what it gives back. */

export interface Launch {
  /** For its files; removed by the caller. */
  folder: string
  cpus: string | undefined
  /** Let it take every challenge for met, where it can. */
  acceptsAll: boolean
}

export interface Launched {
  directoryUrl: string
  pid: number
  http01: { host: string; port: number }
  /** PEM of the root of its TLS certificate; undefined when nobody has signed that. */
  caCertificates: string | undefined
  /** PEM of the root that issued chains lead to. */
  rootCertificate: string
  stop(): Promise<void>
}
