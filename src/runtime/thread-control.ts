/** Control messages between a supervised thread and its supervisor. */
import type { MessagePort } from 'node:worker_threads'
import type { ErrorData } from './errors.ts'

export type ToThread = {
  /** Finish running work within the deadline, release everything, and end the thread. */
  stop: { message: { deadlineMs: number }; reply: undefined }
  /** Answered while the thread's event loop runs. */
  ping: { message: undefined; reply: undefined }
}

export type ToSupervisor = {
  ready: { message: undefined; reply: undefined }
  /** The thread is about to end because of this error. */
  crashed: { message: ErrorData; reply: undefined }
  /** The thread asks for its replacement. Answered when that has succeeded or failed. */
  recycle: { message: { reason: string }; reply: undefined }
}

/** A port of a channel between two threads; the supervisor makes it and hands each thread its end. */
export interface HandedPort {
  /** Whether the thread answers at it or asks through it. */
  end: 'answers' | 'asks'
  port: MessagePort
}

/** The worker data of a supervised thread. */
export interface ThreadStart {
  name: string
  data: unknown
  control: MessagePort
  app: MessagePort
  mailboxLimit: number
}

/**
 * A thread sends only a few control messages. A larger backlog means that the other side is stuck.
 */
export const CONTROL_LIMIT = 16
