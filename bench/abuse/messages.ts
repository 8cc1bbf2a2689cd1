/** What the conductor and the abuser's process say to each other. */

export const ABUSE_KINDS = ['connections', 'bad-signatures', 'huge-bodies', 'slowloris'] as const
export type AbuseKind = (typeof ABUSE_KINDS)[number]

export interface AbuserJob {
  kind: AbuseKind
  directoryUrl: string
  connections: number
  pauseMs: number
  localAddress: string | undefined
  caCertificates: string | undefined
  insecure: boolean
  timeoutMs: number
}

/** Counts since the abuser began. */
export interface AbuserReport {
  opened: number
  /** Connections that the server closed, refused or let time out. */
  closedByServer: number
  /** Requests, or pieces of them. */
  acts: number
  sentBytes: number
  /** Answers by status or problem type. */
  answers: Record<string, number>
  cpuMicros: number
}

export type ToAbuser = { type: 'begin'; job: AbuserJob } | { type: 'report' }
export type FromAbuser =
  /** Every connection has done its first act, or failed to. */
  { type: 'ready' } | { type: 'report'; report: AbuserReport } | { type: 'failed'; reason: string }
