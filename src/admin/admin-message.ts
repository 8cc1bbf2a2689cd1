/** Requests and replies of the Admin API as values: they cross threads as messages. */

import type { ShownSetting } from '../config/shown.ts'
import type { InstanceState } from '../domain/alarms.ts'
import type { Decision } from '../domain/decision.ts'
import type { Header } from '../http/http-message.ts'

export interface AdminRequest {
  requestId: string
  method: string
  /** Below `admin_api.base_path`; empty for the bare base path. */
  path: string
  /** Without `?`. */
  query: string
  authorization: string | undefined
  contentType: string | undefined
  acceptEncoding?: string | undefined
  ifNoneMatch?: string | undefined
  userAgent?: string | undefined
  /** Why another person should approve the act. */
  approvalReason?: string | undefined
  body: Uint8Array
  /** The client's address, read behind trusted proxies. */
  address: string
}

export interface AdminReply {
  status: number
  headers: Header[]
  /** The whole body, or its first piece when `stream` is given. */
  body: string
  /** In place of a text, and in shared memory: any stranger may ask for it, and take it slowly. */
  octets?: Uint8Array
  /** Names the rest of the body; its reader asks for piece after piece. */
  stream?: string
  /** The endpoint's path, for the metrics label. */
  resource: string
}

/** The messages of the admin thread. */
export type AdminMessages = {
  request: { message: AdminRequest; reply: AdminReply }
  /** The next piece; undefined at the end. Rejects when the stream has failed or is unknown. */
  next: { message: string; reply: string | undefined }
  /** Its reader went away. */
  cancel: { message: string; reply: undefined }
}

/** Questions of the admin thread to the supervisor. */
export type AdminQuestions = {
  instance: { message: undefined; reply: InstanceState }
  settings: { message: undefined; reply: ShownConfig }
  /** PEM of the roots that clients should trust; empty where none is known. */
  roots: { message: undefined; reply: string }
  /** Ids of certificates whose revocation is committed: for the signer. */
  noteRevocations: { message: readonly string[]; reply: undefined }
  /** Notes committed decisions in a second place. The reply says why they are in none. */
  noteDecisions: { message: readonly Decision[]; reply: string | undefined }
}

/** The configuration in force, and what the file would change. */
export interface ShownConfig {
  settings: readonly ShownSetting[]
  /** Undefined when the service runs without a file. */
  file: { path: string; errors: readonly string[]; changes: readonly FileChange[] } | undefined
}

interface FileChange {
  key: string
  /** The way to apply it. */
  by: 'SIGHUP' | 'restart'
  /** Without secrets. */
  value: unknown
}
