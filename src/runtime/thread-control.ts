/** What a supervised thread and its supervisor say to each other beside the application's own messages. */
import type { MessagePort } from 'node:worker_threads'
import type { ErrorData } from './errors.ts'

export type ToThread = {
  /** Finish what is in flight within the deadline, release everything, and end the thread. */
  stop: { message: { deadlineMs: number }; reply: undefined }
  /** Answered as long as the thread's event loop turns. */
  ping: { message: undefined; reply: undefined }
}

export type ToSupervisor = {
  ready: { message: undefined; reply: undefined }
  /** The thread is about to end because of this. */
  crashed: { message: ErrorData; reply: undefined }
  /** The thread asks to be replaced by a fresh one; answered when that is done or has failed. */
  recycle: { message: { reason: string }; reply: undefined }
}

/** The worker data of a supervised thread. */
export interface ThreadStart {
  name: string
  data: unknown
  control: MessagePort
  app: MessagePort
  mailboxLimit: number
}

/** Control messages are a handful per life; more on their way means that the other side is stuck. */
export const CONTROL_LIMIT = 16
